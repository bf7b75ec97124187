"""A proxy node, a node with the pages and a second copy are one service, over a real Redis server."""

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from addon.headers import fingerprint
from dashboard.visitors import cookie_name
from extensions.cluster.buckets import find_bucket
from extensions.cluster.page_nodes import PageNodes, read_node
from extensions.cluster.tests.crashes.node_cases import end_proxies
from extensions.cluster.tests.crashes.scene import Case, Scene
from runtime import clock
from store.control import activity_log, budgets, endpoints, sessions
from store.control.activity_log import AuditEntry
from store.control.database import FINGERPRINT_KEY, ControlDatabase
from store.traces.paths import trace_path
from tests.dashboard.people import Someone
from tests.live import command
from tests.live.conftest import make_new_endpoint
from tests.live.service import API_KEY, Endpoint, Row, Service
from tests.redis_server import RedisServer
from tests.store.stored_words import find_word
from tests.upstream import Upstream, wait_until

pytestmark = pytest.mark.live
WORD = "quokkaplonkify"
MESSAGE = b'{"model": "haiku", "messages": [{"role": "user", "content": "%s"}]}' % WORD.encode()
COMPARED = ("entry_id", "outcome", "request_body", "response_body", "credential_hmac", "cost_cents")


@dataclass
class Nodes:
    redis: RedisServer
    upstream: Upstream
    web: Service
    proxy: Service
    copy: Service

    def endpoint(self) -> Endpoint:
        """Make an endpoint on the web node; return it as clients of the proxy node have it."""
        slug = make_new_endpoint(self.web, self.upstream).slug
        found = Endpoint(self.proxy, self.upstream, slug)
        wait_until(lambda: found.send().status == 200, "the slug on the proxy node")
        self.rows(slug, 1)
        return found

    def wait_for_copy(self) -> None:
        """Wait until the node with the pages knows that the other copy is kept by a node that lives."""

        def is_there() -> bool:
            found = PageNodes.read(self.web.data_dir)
            name = read_node(self.copy.data_dir)
            others = [] if found is None else found.list_others()
            return any(each.id == name and each.is_alive for each in others)

        self.web.wait_until(is_there, "the node of the other copy")

    def rows(self, slug: str, count: int) -> list[Row]:
        """Wait until there are so many entries in both copies, which are the same; return them."""
        first, second = (node.wait_for_rows(count, slug) for node in (self.web, self.copy))
        assert [len(first), len(second)] == [count, count]
        key = lambda row: row["entry_id"]  # noqa: E731
        first, second = sorted(first, key=key), sorted(second, key=key)
        assert [[row[name] for name in COMPARED] for row in first] == [
            [row[name] for name in COMPARED] for row in second
        ]
        return first


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path_factory.mktemp("redis")))
        upstream = stack.enter_context(Upstream())

        def start(**settings: str) -> Service:
            folder = tmp_path_factory.mktemp("node")
            return stack.enter_context(Service(folder, upstream.url, CLUSTER=redis.url, **settings))

        yield Nodes(
            redis,
            upstream,
            web=start(ROLE="recorder,web", QUERY_PROCESSES="1"),
            proxy=start(ROLE="proxy"),
            copy=start(ROLE="recorder", GROUP="copy", QUERY_PROCESSES="1"),
        )


def test_a_call_through_the_proxy_node_is_the_same_entry_in_both_copies(nodes):
    endpoint = nodes.endpoint()
    sent = b'{"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "hi"}]}'
    response = endpoint.send(endpoint.message(sent))
    assert response.status == 200
    row = nodes.rows(endpoint.slug, 2)[-1]
    assert row["request_body"] == sent.decode()
    assert row["response_body"] == response.body.decode()
    assert list(nodes.proxy.data_dir.glob("traces/*/*")) == []


def test_a_credential_has_the_fingerprint_of_the_key_that_the_web_node_has_now(nodes):
    """It gets another one with a backup, and a proxy node may have begun with one of its own."""
    endpoint = nodes.endpoint()
    key = secrets.token_bytes(32)
    with ControlDatabase(nodes.web.data_dir / "control.db") as control:
        organization_id = control.get_local_organization().id
        with control.transaction() as db:
            db.execute("update secrets set value = ? where name = ?", (key, FINGERPRINT_KEY))
    expected = fingerprint(API_KEY.encode(), key, organization_id)

    def has_it() -> bool:
        endpoint.send()
        return bool(nodes.web.rows(endpoint.slug)[-1]["credential_hmac"] == expected)

    wait_until(has_it, "a call with the fingerprint that the web node would give it")


def test_a_deleted_slug_stops_on_the_proxy_node(nodes):
    endpoint = nodes.endpoint()
    nodes.web.delete_endpoint(endpoint.slug)
    wait_until(lambda: endpoint.send().status == 404, "the end of the slug on the proxy node")


def test_a_node_without_the_role_forwards_nothing(nodes):
    endpoint = Endpoint(nodes.web, nodes.upstream, "default")
    response = endpoint.send()
    assert (response.status, response.header("x-taximeter-error")) == (404, "not_a_proxy_node")


def test_an_erasure_reaches_a_copy_that_was_killed_between_order_and_execution(nodes):
    endpoint = nodes.endpoint()
    endpoint.send(endpoint.message(MESSAGE))
    nodes.rows(endpoint.slug, 2)
    nodes.copy.kill()
    try:
        done = command.call_here(
            ("erase", "--endpoint", endpoint.slug, "--yes"), command.environment(nodes.web)
        )
        assert done.returncode == 0, done.stderr
        assert "Erased 2 calls in the copy main" in done.stdout
        assert re.search(r"Still .* in the copy copy .*, when that node is back", done.stdout)
        assert find_word(nodes.web.data_dir, WORD) == []
        assert find_word(nodes.copy.data_dir, WORD) != []
        assert "still to be erased in the copy copy" in read_settings_page(nodes.web)
    finally:
        nodes.copy.start()
    nodes.copy.wait_until(
        lambda: find_word(nodes.copy.data_dir, WORD) == [], "the erasing of the other copy"
    )
    with ControlDatabase(nodes.web.data_dir / "control.db") as control:

        def read_log() -> list[AuditEntry]:
            with control.reading() as db:
                return list(activity_log.read(db, control.get_local_organization().id))

        def find_erased() -> set[object]:
            return {
                each.details["copy"]
                for each in read_log()
                if (each.action, each.details.get("calls")) == ("erase.copy", "2")
            }

        wait_until(lambda: find_erased() == {"main", "copy"}, "what was erased in the log")


def test_a_call_that_comes_after_an_erasure_and_began_before_is_erased_in_both_copies(nodes):
    endpoint = nodes.endpoint()
    nodes.wait_for_copy()
    shipper = psutil.Process(nodes.proxy.pids()["cluster"])
    arguments = ("erase", "--endpoint", endpoint.slug)
    environ = command.environment(nodes.web)
    shipper.suspend()
    try:
        assert endpoint.send(endpoint.message(MESSAGE)).status == 200
        done = command.call_here((*arguments, "--yes"), environ)
        assert "Erased 1 call in the copy copy" in done.stdout, done
        assert nodes.web.rows(endpoint.slug) == nodes.copy.rows(endpoint.slug) == []
        assert find_word(nodes.proxy.data_dir, WORD) != []
        name = read_node(nodes.proxy.data_dir)
        asked = command.call_here(("erase", "--status"), environ)
        assert f"Proxy nodes that may still have such calls: {name}" in asked.stdout
    finally:
        shipper.resume()

    def count_erased() -> set[int]:
        found = json.loads(command.call_here(("erase", "--status", "--json"), environ).stdout)
        return {copy["entries"] for copy in found["items"][-1]["copies"]}

    wait_until(lambda: count_erased() == {2}, "the late call in both copies")
    for node in (nodes.web, nodes.copy, nodes.proxy):
        node.wait_until(
            lambda node=node: find_word(node.data_dir, WORD) == [], "the end of the text"
        )


def _restart_redis(scene: Scene, redis: RedisServer) -> None:
    redis.kill()
    scene.load.wait_for(10)
    redis.start()


@pytest.mark.slow
def test_under_load_the_death_of_any_process_loses_doubles_and_disturbs_nothing(nodes):
    """The short form of extensions.cluster.tests.crashes."""
    cases = [
        Case("kill -9 of the proxy", end_proxies),
        Case("Redis restarted", lambda scene: _restart_redis(scene, nodes.redis), is_away=True),
    ]
    recorders = [nodes.web, nodes.copy]
    with Scene([nodes.proxy], recorders, nodes.upstream, rate=40.0, lasts_s=0.3) as scene:
        for case in cases:
            verdict = scene.run(case, calls=12).verdict
            assert verdict.wrong == [], case.name
            assert (verdict.lost, verdict.double, verdict.disturbed) == ([], [], []), case.name
            assert verdict.calls >= 12
        assert scene.verify() == []


def test_pages_come_from_the_node_that_keeps_the_calls_and_then_from_the_copy(
    nodes: Nodes, tmp_path: Path
) -> None:
    nodes.endpoint()  # what has calls stays where it is
    home, copy = nodes.web, nodes.copy
    base_url = command.base_url(home)
    settings = {"CLUSTER": nodes.redis.url, "ROLE": "recorder", "QUERY_PROCESSES": "1"}
    with (
        ControlDatabase(home.data_dir / "control.db") as control,
        httpx.Client(base_url=f"http://{home.host}", timeout=60) as browser,
    ):

        def ask(person: Someone, path: str) -> httpx.Response:
            return browser.get(path, headers=person.cookie)

        def count_rows(person: Someone) -> int:
            found = ask(person, "/traces/usage_log.json?_shape=array")
            return len(found.json()) if found.status_code == 200 else 0

        with Service(tmp_path, nodes.upstream.url, **settings) as second:
            kept = wait_for_buckets(home, second)
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
            assert "of-ann" in ask(ann, "/traces/usage_log.csv?_stream=1").text
            with browser.stream("GET", "/live/events", headers=ann.cookie) as events:
                assert next(events.iter_text()).startswith("retry:")
            refused = ask(ann, f"http://{second.host}/overview.json")
            assert refused.status_code == 403
            _, key = ann.make_key()
            here, elsewhere = command.environment(home), ("--base-url", command.base_url(home))
            with_key = here | {"TAXIMETER_API_KEY": key}
            for arguments, environ in (
                (("export",), here),
                (("export", *elsewhere), with_key),
                (("usage", "--by", "endpoint", *elsewhere), with_key),
            ):
                done = command.call_here(arguments, environ)
                assert (done.returncode, done.stderr) == (0, "")
                assert "of-ann" in done.stdout
            calls = 'taximeter_calls_total{copy="main",endpoint="of-ann"'
            assert calls in browser.get(f"http://{second.host}/metrics").text
            bearer = {"authorization": f"Bearer {key}"}
            assert calls in browser.get("/metrics", headers=bearer).text
            assert calls not in browser.get("/metrics").text
            with control.transaction() as db:
                budgets.put(
                    db, ann.organization_id, None, period="day", limit_usd=1e-6, action="refuse"
                )
            paid = endpoint.message(b'{"model": "claude-opus-5-5"}')
            wait_until(lambda: endpoint.send(paid).status == 429, "the end of the budget")
            path = trace_path(copy.data_dir, ann.organization_id)
            copy.wait_until(path.exists, "the call in the copy")
        wait_until(lambda: "read from a copy" in ask(ann, "/overview").text, "the page of the copy")
        wait_until(lambda: count_rows(ann) > 1, "the calls on the page of the copy")


def read_settings_page(home: Service) -> str:
    """Return the settings as the local user sees them."""
    with ControlDatabase(home.data_dir / "control.db") as control:
        user_id = control.find_user(None)
        assert user_id is not None
        with control.transaction() as db:
            session = sessions.create(db, user_id, clock.now())
    cookie = {"cookie": f"{cookie_name(f'http://{home.host}')}={session}"}
    page = httpx.get(f"http://{home.host}/settings", headers=cookie, timeout=60)
    assert page.status_code == 200
    return page.text


def wait_for_buckets(home: Service, node: Service) -> set[int]:
    """Return the buckets that another node of the first copy keeps, once it has its half."""
    kept: set[int] = set()

    def has_half() -> bool:
        found = PageNodes.read(home.data_dir)
        holders = [] if found is None else found.holders.get("main", [])
        name = read_node(node.data_dir)
        kept.update(bucket for bucket, holder in enumerate(holders) if holder == name)
        return len(kept) == len(holders) // 2 > 0

    home.wait_until(has_half, "the buckets of the second node")
    return kept
