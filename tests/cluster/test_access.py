"""The commands that docs/cluster.md allows the user of a cluster are enough, and all are needed."""

import re
from pathlib import Path

import redis

from cluster import server
from cluster.budgets import BudgetFollower, BudgetPublisher, BudgetReporter
from cluster.directory import Follower, Publisher
from cluster.limits import ClusterWindows
from cluster.log import find_bucket, stream_name
from cluster.shipper import FORGET_S, REMEMBERED_S, Shipper
from cluster.whereabouts import Whereabouts
from runtime.page_nodes import PageNodesFile
from store import database
from store.budget_file import BudgetFile
from store.control.database import ControlDatabase
from tests.cluster.spools import ORGANIZATION, names, receive, spool

STREAM = stream_name(find_bucket(ORGANIZATION))
DOCUMENT = Path(__file__).parents[2] / "docs" / "cluster.md"


async def test_the_user_of_the_documentation_may_do_all_that_is_done(
    run, root, tmp_path, redis_server, client, clock
):
    (line,) = re.findall(r"^ACL SETUSER .*$", DOCUMENT.read_text(), re.M)
    client.execute_command(*line.split())
    url = redis_server.url.replace("unix://", "unix://taximeter:PASSWORD@")
    allowed = server.connect(url)
    try:
        shipper = Shipper(root, allowed, clock)
        spool(run, "0001")
        receive(tmp_path / "main", allowed).close()
        shipper.run_round()
        client.xreadgroup("main", "lost", {STREAM: ">"})
        receiver = receive(tmp_path / "main", allowed)
        assert receiver.trim() == 0
        assert names(tmp_path / "main") == ["0001~org-1.done"]
        receiver.trim()
        clock.now_s += REMEMBERED_S + FORGET_S
        shipper.run_round()
        assert list(root.glob("*/0001*")) == []
        with ControlDatabase(tmp_path / "web.db") as web:
            web.set_up()
            reading = database.open_readonly(tmp_path / "web.db", busy_timeout_s=1.0)
            publisher = Publisher(reading, allowed)
            publisher.run_round()
            with web.transaction() as db:
                db.execute("delete from proxy_endpoints")
            publisher.run_round()
            reading.close()
            assert BudgetReporter(BudgetFile(tmp_path), web, allowed, "node").run_round()
            Whereabouts(tmp_path, allowed, "node", "main").run_round()
            assert BudgetPublisher(PageNodesFile(tmp_path), web, allowed).run_round()
            assert not BudgetFollower(BudgetFile(tmp_path), allowed).run_round()
        with ControlDatabase(tmp_path / "proxy.db", checks_references=False) as control:
            assert Follower(control, allowed).run_round()
        windows = ClusterWindows(url)
        assert await windows.admit("messages default", 1) == 0
        assert await windows.admit("messages default", 1) > 0
        await windows.note("messages default", 1, [1.0])
        await windows.close()
        assert client.acl_log() == []
        for command in ("CONFIG GET *", "KEYS *", "FLUSHALL", "GET other"):
            try:
                allowed.execute_command(*command.split())
            except redis.exceptions.NoPermissionError:
                continue
            raise AssertionError(f"{command} is allowed")
    finally:
        allowed.close()
