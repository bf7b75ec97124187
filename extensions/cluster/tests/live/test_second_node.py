"""A second node of the first copy: a bucket is moved to it and back while clients call, and no call is lost
or double; then it ends, and its pages come from the other copy."""

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from extensions.cluster.buckets import BUCKETS, find_bucket, find_bucket_folders
from extensions.cluster.page_nodes import PageNodes, read_node
from extensions.cluster.tests.live.nodes import Nodes
from store.control import endpoints
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.dashboard.people import Someone
from tests.live import command
from tests.live.service import Endpoint, Row, Service
from tests.upstream import wait_until

pytestmark = pytest.mark.live
PAUSE_S = 0.2


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


@pytest.fixture(scope="module")
def other(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The second node, which a test may have ended."""
    nodes.endpoint()  # what has calls stays where it is
    settings = {"CLUSTER": nodes.redis.url, "ROLE": "recorder", "QUERY_PROCESSES": "1"}
    with Service(tmp_path_factory.mktemp("second"), nodes.upstream.url, **settings) as other:
        yield other


@pytest.fixture
def second(nodes: Nodes, other: Service) -> Service:
    """The second node, which keeps half of the buckets."""
    other.ensure_started()
    wait_for_buckets(nodes.web, other)
    return other


@pytest.mark.slow
def test_a_bucket_is_moved_under_load_and_back_after_a_kill(nodes, second):
    home, copy = nodes.web, nodes.copy
    nodes.upstream.reset()
    with ControlDatabase(home.data_dir / "control.db") as control:
        organization_id = control.get_local_organization().id
    bucket = find_bucket(organization_id)
    names = {node: read_node(node.data_dir) or "" for node in (home, second)}
    environ = command.environment(home, TAXIMETER_CLUSTER=nodes.redis.url)

    def move(target: Service) -> None:
        words = ("cluster", "move", organization_id, names[target], "--json")
        done = command.call_here(words, environ)
        assert done.returncode == 0, (done.stderr, home.output, second.output)
        assert json.loads(done.stdout) == {"bucket": bucket, "moved": True}

    listed = command.call_here(("cluster", "nodes", "--json"), environ)
    counts = {each["id"]: each["buckets"] for each in json.loads(listed.stdout)["items"]}
    assert counts[names[home]] + counts[names[second]] == BUCKETS, listed

    def is_shown() -> bool:
        shown = command.call_here(("cluster", "nodes"), environ).stdout
        assert f"{names[second]}  main" in shown
        return "(proxy)" in shown  # once that node has told what it ships

    wait_until(is_shown, "the proxy node in the list")
    called = [nodes.endpoint() for _ in range(3)]
    with Callers(called) as callers, ThreadPoolExecutor(1) as thread:
        callers.wait_for(10)
        move(second)
        callers.wait_for(10)
        assert find_bucket_folders(home.data_dir, bucket) == []
        moving = thread.submit(move, home)
        callers.wait_for(10)
        for node in (second, home):
            pids = node.kill9("cluster")
            node.wait_restarted(pids)
        moving.result()
        callers.wait_for(10)
    assert set(callers.sent) == {200}
    assert find_bucket_folders(second.data_dir, bucket) == []
    rows: list[list[Row]] = []

    def count() -> list[int]:
        rows[:] = [
            [row for endpoint in called for row in node.settled_rows(endpoint.slug)]
            for node in (home, copy)
        ]
        return [len(each) for each in rows]

    calls = len([each for each in nodes.upstream.requests if each.whole.is_set()])
    wait_until(lambda: min(count()) >= calls, "the rows of all calls in both copies")
    entries = [sorted(row["entry_id"] for row in each) for each in rows]
    assert entries[0] == entries[1]
    assert len(set(entries[0])) == len(entries[0]) == calls
    for node in (home, copy):
        with closing(TraceDatabase(trace_path(node.data_dir, organization_id))) as traces:
            assert list(traces.verify()) == []


def test_pages_come_from_the_node_that_keeps_the_calls_and_then_from_the_copy(
    nodes: Nodes, second: Service, tmp_path: Path
) -> None:
    home, copy = nodes.web, nodes.copy
    base_url = command.base_url(home)
    kept = wait_for_buckets(home, second)
    with (
        ControlDatabase(home.data_dir / "control.db") as control,
        httpx.Client(base_url=f"http://{home.host}", timeout=60) as browser,
    ):

        def ask(person: Someone, path: str) -> httpx.Response:
            return browser.get(path, headers=person.cookie)

        def count_rows(person: Someone) -> int:
            found = ask(person, "/traces/usage_log.json?_shape=array")
            return len(found.json()) if found.status_code == 200 else 0

        number = 0
        ann = Someone(control, tmp_path, "ann0@example.org", base_url=base_url)
        while find_bucket(ann.organization_id) not in kept:
            number += 1
            ann = Someone(control, tmp_path, f"ann{number}@example.org", base_url=base_url)
        with control.transaction() as db:
            endpoints.create(db, ann.organization_id, "of-ann", "of-ann")
        endpoint = Endpoint(nodes.proxy, nodes.upstream, "of-ann")
        wait_until(lambda: endpoint.send().status == 200, "the slug on the proxy node")
        wait_until(lambda: count_rows(ann) == 1, "the call on the page")
        assert not trace_path(home.data_dir, ann.organization_id).exists()
        assert count_rows(Someone(control, tmp_path, "cid@example.org", base_url=base_url)) == 0
        with browser.stream("GET", "/live/events", headers=ann.cookie) as events:
            assert next(events.iter_text()).startswith("retry:")
        path = trace_path(copy.data_dir, ann.organization_id)
        copy.wait_until(path.exists, "the call in the copy")
        second.close()
        wait_until(lambda: "read from a copy" in ask(ann, "/").text, "the page of the copy")
        wait_until(lambda: count_rows(ann) == 1, "the call on the page of the copy")


def wait_for_buckets(home: Service, node: Service) -> set[int]:
    """Return the buckets that another node of the first copy keeps, once it has its half."""
    kept: set[int] = set()

    def has_half() -> bool:
        found = PageNodes.read(home.data_dir)
        holders = [] if found is None else found.holders.get("main", [])
        name = read_node(node.data_dir)
        kept.clear()
        kept.update(bucket for bucket, holder in enumerate(holders) if holder == name)
        return len(kept) == len(holders) // 2 > 0

    home.wait_until(has_half, "the buckets of the second node")
    return kept
