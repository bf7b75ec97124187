"""The users that the README has for each role may do all that their nodes do, and no more."""

import re

import pytest
import redis

from extensions.cluster import administration, keys, server
from extensions.cluster.limits import ClusterWindows
from extensions.cluster.log import stream_name
from extensions.cluster.tests.three_nodes import BUCKET, ORGANIZATION, Cluster
from runtime import clock
from store.control import erasures
from store.control.database import ControlDatabase
from store.traces.maintenance.criteria import Criteria
from tests import ROOT

DOCUMENT = ROOT / "extensions" / "cluster" / "README.md"
ROLES = ("proxy", "recorder", "web")


@pytest.fixture
def users(client):
    """Make the users of the documentation, and one of a node with two roles; return their lines."""
    lines = re.findall(r"^ACL SETUSER (.*)$", DOCUMENT.read_text(), re.M)
    assert [line.split()[0] for line in lines] == [f"taximeter-{role}" for role in ROLES]
    for line in lines:
        client.execute_command("ACL", "SETUSER", *line.split())
    for line in lines[1:]:
        client.execute_command("ACL", "SETUSER", "both", *line.split()[1:])
    return lines


@pytest.fixture
def find_url(redis_server, users):
    return lambda role: redis_server.url.replace("unix://", f"unix://taximeter-{role}:PASSWORD@")


@pytest.fixture
def open_as(find_url):
    opened = []

    def open_client(role):
        opened.append(server.connect(find_url(role)))
        return opened[-1]

    yield open_client
    for each in opened:
        server.close(each)


async def test_the_users_of_the_documentation_may_do_all_that_is_done(
    client, find_url, tmp_path, monkeypatch
):
    monkeypatch.setattr("extensions.cluster.receiver.BLOCK_MS", 1)
    monkeypatch.setattr("extensions.cluster.copies.RENEW_S", 0.0)
    monkeypatch.setattr("extensions.cluster.__main__.TRIM_S", 0.0)
    monkeypatch.setattr("extensions.cluster.shipper.REMEMBERED_S", 0.0)
    monkeypatch.setattr("extensions.cluster.shipper.FORGET_S", 0.0)
    cluster = Cluster(tmp_path, find_url)
    cluster.turn(3)
    cluster.errors.clear()
    cluster.arrives(ORGANIZATION)
    with ControlDatabase(tmp_path / "web" / "control.db") as control:
        with control.transaction() as db:
            db.execute("update proxy_endpoints set deleted_at = '2026'")
            db.execute("delete from proxy_endpoints")
            organization_id = db.execute("select id from organizations").fetchone()[0]
            erasures.order(db, organization_id, None, Criteria(session="s"), clock.now())
        cluster.turn(4)
        # What was delivered to a node that kept the bucket before is taken over.
        client.xadd(stream_name(BUCKET), {"v": "0"})
        client.xreadgroup("main", "lost", {stream_name(BUCKET): ">"})
        web = find_url("web")
        client.hset(keys.NODES, "gone", b'["main", "gone:1"]')
        assert {each.id for each in administration.list_nodes(web)} >= {cluster.node, "gone"}
        administration.forget(web, control, "gone")
        client.hset(keys.NODES, "x", b'["main", "x:1"]')
        client.xreadgroup("main", "x", {keys.COPIES: "0"})  # it lives
        move = administration.order_move(web, BUCKET, "x")
        assert move is not None
        cluster.turn(3)
        administration.read_move(web, move)
        assert administration.cancel_move(web, BUCKET, "x")
        cluster.turn(2)
    windows = ClusterWindows(find_url("proxy"))
    assert await windows.admit("messages default", 1) == 0
    assert await windows.admit("messages default", 1) > 0
    await windows.note("messages default", 1, [1.0])
    await windows.close()
    cluster.close()
    assert client.acl_log() == []
    assert cluster.errors == []


FORBIDDEN = {
    "proxy": (
        *(f"XRANGE {stream_name(0)} - +", f"XREADGROUP GROUP main n STREAMS {stream_name(0)} >"),
        *(
            f"GET {keys.STATEMENTS_KEY}",
            f"SET {keys.STATEMENTS_KEY} x",
            f"XTRIM {keys.LOG}0 MAXLEN 0",
        ),
        *(f"HGETALL {keys.MOVES}", f"HSET {keys.MOVES} a b", f"HSET {keys.MOVES_SAID} a b"),
        *(f"GET {keys.PIECES}x", f"HSET {keys.NODES} a b", f"HSET {keys.BUCKETS}main 0 x"),
        *(f"HSET {keys.DIRECTORY} a b", f"SET {keys.BUDGETS} x", f"HSET {keys.ERASURES} a b"),
        *(f"HGETALL {keys.BUDGETS_OF_NODES}", f"HDEL {keys.ERASURES} a"),
    ),
    "recorder": (
        *(f"SET {keys.STATEMENTS_KEY} x", f"HSET {keys.DIRECTORY} a b", f"XADD {keys.LOG}0 * a b"),
        *(f"HSET {keys.ERASURES} a b", f"SET {keys.BUDGETS} x", f"LPUSH {keys.LIMITS}x 1"),
    ),
    "web": (
        *(f"XRANGE {stream_name(0)} - +", f"XADD {keys.LOG}0 * a b", f"GET {keys.PIECES}x"),
        *(f"XGROUP CREATE {keys.COPIES} x 0", f"HSET {keys.BUDGETS_OF_NODES} a b"),
    ),
}
FOR_NOBODY = ("CONFIG GET *", "KEYS *", "FLUSHALL", "GET other", "DEL taximeter:moves", "ACL LIST")


@pytest.mark.parametrize("role", ROLES)
def test_a_user_may_do_nothing_that_its_role_does_not(open_as, client, role):
    allowed = open_as(role)
    client.xadd(stream_name(0), {"a": "b"})
    for command in (*FORBIDDEN[role], *FOR_NOBODY):
        with pytest.raises(redis.exceptions.NoPermissionError):
            allowed.execute_command(*command.split())


def test_rules_of_two_roles_add_up(client, users):
    rules = client.acl_getuser("both")
    for line in users[1:]:
        for word in line.split()[4:]:
            if word.startswith("+"):
                assert word in rules["commands"]
    assert client.acl_dryrun("both", "GET", keys.STATEMENTS_KEY) == b"OK"
