"""A bucket is moved from one running node to another while clients call, and no call is lost or double."""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial

import pytest

from extensions.cluster.buckets import BUCKETS, find_bucket, find_bucket_folders
from extensions.cluster.page_nodes import PageNodes, read_node
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.live import command
from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Row, Service
from tests.redis_server import RedisServer
from tests.upstream import Upstream, wait_until

pytestmark = pytest.mark.live
PAUSE_S = 0.1


class Callers:
    """Clients that call until they are told to stop, so often that no endpoint is at its limit."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.sent: list[int] = []
        self._endpoints = endpoints
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(2)]

    def __enter__(self) -> "Callers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self) -> None:
        while not self._stop.wait(PAUSE_S):
            endpoint = self._endpoints[len(self.sent) % len(self._endpoints)]
            self.sent.append(endpoint.send().status)

    def wait_for(self, more: int) -> None:
        """Wait for so many calls more."""
        wanted = len(self.sent) + more
        wait_until(lambda: len(self.sent) >= wanted, "calls")


def answers(endpoint: Endpoint) -> bool:
    return endpoint.send().status == 200


@pytest.mark.slow
def test_a_bucket_is_moved_under_load_and_back_after_a_kill(tmp_path_factory):
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path_factory.mktemp("redis")))
        upstream = stack.enter_context(Upstream())

        def start(**settings: str) -> Service:
            folder = tmp_path_factory.mktemp("node")
            return stack.enter_context(Service(folder, upstream.url, CLUSTER=redis.url, **settings))

        home = start(ROLE="recorder,web", QUERY_PROCESSES="1")
        proxy = start(ROLE="proxy")
        copy = start(ROLE="recorder", GROUP="copy", QUERY_PROCESSES="1")
        with ControlDatabase(home.data_dir / "control.db") as control:
            organization_id = control.get_local_organization().id
        bucket = find_bucket(organization_id)
        endpoints = [
            Endpoint(proxy, upstream, make_new_endpoint(home, upstream).slug) for _ in range(6)
        ]
        for endpoint in endpoints:
            wait_until(partial(answers, endpoint), "the slug on the proxy node")
        home.wait_for_rows(6)
        other = start(ROLE="recorder", QUERY_PROCESSES="1")
        names = {node: read_node(node.data_dir) or "" for node in (home, other)}

        def knows_both() -> bool:
            found = PageNodes.read(home.data_dir)
            return found is not None and set(names.values()) <= {each.id for each in found.nodes}

        home.wait_until(knows_both, "the second node")
        environ = command.environment(home, TAXIMETER_CLUSTER=redis.url)

        def move(target: Service) -> None:
            words = ("cluster", "move", organization_id, names[target], "--json")
            done = command.call(words, environ)
            assert done.returncode == 0, (done.stderr, home.output, other.output)
            assert json.loads(done.stdout) == {"bucket": bucket, "moved": True}

        listed = command.call_here(("cluster", "nodes", "--json"), environ)
        counts = {each["id"]: each["buckets"] for each in json.loads(listed.stdout)["items"]}
        assert counts[names[home]] + counts[names[other]] == BUCKETS, listed
        shown = command.call_here(("cluster", "nodes"), environ).stdout
        assert f"{names[other]}  main" in shown
        assert "(proxy)" in shown
        with Callers(endpoints) as callers, ThreadPoolExecutor(1) as thread:
            callers.wait_for(30)
            move(other)
            callers.wait_for(30)
            assert find_bucket_folders(home.data_dir, bucket) == []
            moving = thread.submit(move, home)
            callers.wait_for(20)
            for node in (other, home):
                pids = node.kill9("cluster")
                node.wait_restarted(pids)
            moving.result()
            callers.wait_for(30)
        assert set(callers.sent) == {200}
        assert find_bucket_folders(other.data_dir, bucket) == []
        rows: list[list[Row]] = []

        def count() -> list[int]:
            rows[:] = [node.settled_rows() for node in (home, copy)]
            return [len(each) for each in rows]

        calls = len([each for each in upstream.requests if each.whole.is_set()])
        wait_until(lambda: min(count()) >= calls, "the rows of all calls in both copies")
        entries = [sorted(row["entry_id"] for row in each) for each in rows]
        assert entries[0] == entries[1]
        assert len(set(entries[0])) == len(entries[0]) == calls
        for node in (home, copy):
            with closing(TraceDatabase(trace_path(node.data_dir, organization_id))) as traces:
                assert list(traces.verify()) == []
