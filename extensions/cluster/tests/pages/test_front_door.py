"""Pages of calls that another node keeps: forwarded for whoever may read them, and for nobody else."""

import asyncio
import socket
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette

from extensions.cluster.buckets import BUCKETS
from extensions.cluster.page_nodes import REFUSED, PageNode, PageNodes
from extensions.cluster.pages import forwarding, front_door, visitors
from extensions.cluster.settings import NODE_FILE
from extensions.cluster.statements import HEADER, VALID_S, Statement, load_signing_key
from extensions.cluster.tests.control import bring_over
from manage.server import make_app
from runtime import clock, response_headers
from runtime.attempts import BAD_KEYS_PER_MINUTE
from runtime.node import Node
from store.control import invitations
from store.control.database import ControlDatabase
from store.control.people import Caller
from store.traces.paths import traces_folder
from tests.dashboard.people import BASE_URL, Someone

pytestmark = pytest.mark.served

NODES = {"main": "first:1", "copy": "second:2"}
METRICS_TOKEN = "the-token-of-the-operator"


class Transport(httpx.AsyncBaseTransport):
    """Connects to the applications of nodes by their addresses, and to real ones that are listed."""

    def __init__(self) -> None:
        self.apps: dict[str, Starlette] = {}
        self.real: set[str] = set()
        self.asked: Counter[str] = Counter()

    async def handle_async_request(self, request):
        address = request.url.netloc.decode()
        self.asked[address] += 1
        if address in self.real:
            async with httpx.AsyncHTTPTransport() as transport:
                return await transport.handle_async_request(request)
        app = self.apps.get(address)
        if app is None:
            raise httpx.ConnectError("connection refused")
        return await httpx.ASGITransport(app).handle_async_request(request)


class Cluster:
    """A node with people and no calls, and a node with calls in each of two groups."""

    def __init__(self, home, folders, transport, settings, control) -> None:
        self.home, self.folders, self.transport = home, folders, transport
        self._settings, self.control = settings, control

    def person(self, email):
        """Return somebody with two calls, on both nodes, whose models are named after them."""
        someone = Someone(self.control, self.folders["main"], email)
        for group, count in (("main", 2), ("copy", 1)):
            someone.path = (
                someone.path.parents[3] / group / "traces" / someone.path.parts[-2] / "traces.db"
            )
            someone.record(*[{"model": f"model-of-{email.partition('@')[0]}"}] * count)
        return someone

    def tell_home(self, **addresses):
        """Let the node with people know where the nodes of groups are."""
        PageNodes(
            here="home",
            group="main",
            nodes=[
                PageNode(id=group, group=group, address=address, is_alive=True)
                for group, address in (NODES | addresses).items()
            ],
            holders={group: [group] * BUCKETS for group in NODES},
        ).write(self._settings.data_dir)

    def tell_nodes(self):
        """Let the nodes follow the directory."""
        for folder in self.folders.values():
            with ControlDatabase(folder / "control.db", checks_references=False) as other:
                bring_over(self.control, other)

    async def get(self, person, path, **headers):
        return await self.home.get(path, headers=headers or person.cookie)

    def sign(self, person, path="/overview.json", node="main", **changes):
        """Return the headers of a request to a node itself."""
        caller = Caller(
            user_id=person.user_id, organization_id=person.organization_id, role="owner"
        )
        statement = Statement(
            caller=caller,
            node=node,
            method="GET",
            target=path,
            at_s=time.time(),
            is_copy=False,
        )
        key = changes.pop("key", None) or load_signing_key(self.control)
        return {HEADER: replace(statement, **changes).sign(key)}

    async def ask_node(self, path="/overview.json", group="main", **headers):
        """Send a request to a node itself."""
        app = self.transport.apps[NODES[group]]
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=f"http://{NODES[group]}"
        ) as client:
            return await client.get(path, headers=headers)


@pytest.fixture
async def cluster(tmp_path, settings, control, query_server, monkeypatch):
    transport = Transport()
    monkeypatch.setattr(front_door, "Forwarder", lambda: forwarding.Forwarder(transport))
    # On a busy machine a page of the first node may take long, and a copy would respond for it.
    monkeypatch.setattr(front_door, "FIRST_BYTE_S", 60.0)
    folders = {}
    async with AsyncExitStack() as stack:
        # The tables of the first node.
        stack.enter_context(query_server.serving(traces_folder(tmp_path / "main"), monkeypatch))
        for group, address in NODES.items():
            folders[group] = data_dir = tmp_path / group
            data_dir.mkdir()
            (data_dir / NODE_FILE).write_text(group)
            own = replace(
                settings,
                data_dir=data_dir,
                node=Node(parts=frozenset({"recorder"}), copy=group),
                metrics_token=METRICS_TOKEN,
            )
            app = transport.apps[address] = make_app(own)
            await stack.enter_async_context(app.router.lifespan_context(app))
        app = make_app(replace(settings, node=Node(parts=frozenset({"web"}), copy="main")))
        await stack.enter_async_context(app.router.lifespan_context(app))
        home = await stack.enter_async_context(
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE_URL)
        )
        found = Cluster(home, folders, transport, settings, control)
        found.tell_nodes()
        found.tell_home()
        yield found


async def test_pages_and_figures_are_those_of_the_node_that_keeps_the_calls(cluster):
    ann = cluster.person("ann@example.org")
    for path in ("/", "/traces/usage", "/calls/1", "/search?q=x", "/sessions"):
        page = await cluster.get(ann, path)
        assert page.status_code == 200, (path, page.text)
        assert "ann@example.org" in page.text, path
        assert visitors.COPY not in page.text, path
    rows = await cluster.get(ann, "/traces/usage_log.json?_shape=array", **ann.bearer)
    assert [row["model"] for row in rows.json()] == ["model-of-ann"] * 2
    totals = await cluster.get(ann, "/api/usage?by=model", **ann.bearer)
    assert [(each["model"], each["calls"]) for each in totals.json()["groups"]] == [
        ("model-of-ann", 2)
    ]
    assert response_headers.COPY not in totals.headers
    assert list(cluster.folders["main"].parent.glob("data/traces/*")) == []


async def test_the_copy_responds_where_the_first_node_does_not_and_says_so(cluster):
    ann = cluster.person("ann@example.org")
    del cluster.transport.apps[NODES["main"]]
    for path in ("/", "/calls/1"):
        page = await cluster.get(ann, path)
        assert page.status_code == 200
        assert visitors.COPY in page.text
    totals = await cluster.get(ann, "/api/usage", **ann.bearer)
    assert totals.json()["totals"]["calls"] == 1
    assert response_headers.COPY in totals.headers
    del cluster.transport.apps[NODES["copy"]]
    page = await cluster.get(ann, "/")
    assert page.status_code == 503
    assert "does not respond" in page.text


async def test_a_node_that_accepts_connections_and_stays_silent_is_left_for_the_copy(
    cluster, monkeypatch
):
    monkeypatch.setattr(front_door, "SILENT_S", 1000.0)
    ann = cluster.person("ann@example.org")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        cluster.transport.real.add(address)
        cluster.tell_home(main=address)
        with monkeypatch.context() as impatient:
            impatient.setattr(front_door, "FIRST_BYTE_S", 0.2)
            assert visitors.COPY in (await cluster.get(ann, "/")).text
        assert cluster.transport.asked[address] == 1
        # The next page does not wait for it again.
        assert visitors.COPY in (await cluster.get(ann, "/")).text
        assert cluster.transport.asked[address] == 1


async def test_figures_for_prometheus_are_those_of_the_first_copy_or_none(cluster):
    """A counter that becomes smaller is taken for one that began anew, and all of it is counted again."""
    ann = cluster.person("ann@example.org")
    scraped = await cluster.get(ann, "/metrics", **ann.bearer)
    assert scraped.status_code == 200, scraped.text
    assert 'copy="main"' in scraped.text
    calls = [line for line in scraped.text.splitlines() if line.startswith("taximeter_calls_total")]
    assert [line.rpartition(" ")[2] for line in calls] == ["2.0"]
    assert (await cluster.get(ann, "/metrics")).status_code == 401
    del cluster.transport.apps[NODES["main"]]
    assert (await cluster.get(ann, "/metrics", **ann.bearer)).status_code == 503


async def test_the_operator_has_figures_of_each_node_that_keeps_calls(cluster):
    ann, cid = cluster.person("ann@example.org"), cluster.person("cid@example.org")
    for group, count in (("main", 2), ("copy", 1)):
        scraped = await cluster.ask_node("/metrics", group, authorization=f"Bearer {METRICS_TOKEN}")
        assert scraped.status_code == 200, scraped.text
        for person in (ann, cid):
            name = f"model-of-{person.email.partition('@')[0]}"
            (line,) = [
                each
                for each in scraped.text.splitlines()
                if each.startswith("taximeter_calls_total") and name in each
            ]
            assert f'copy="{group}"' in line
            assert line.endswith(f" {count}.0")
    for refused in (
        await cluster.ask_node("/metrics"),
        await cluster.ask_node("/metrics", **ann.cookie),
        await cluster.ask_node("/metrics", **ann.bearer),
    ):
        assert refused.status_code == 401


async def test_who_is_invited_is_told_so_on_the_page_of_another_node(cluster):
    ann = cluster.person("ann@example.org")
    cid = cluster.person("cid@example.org")
    with cluster.control.transaction() as db:
        invitations.create(db, cid.organization_id, ann.email, cid.email, clock.now())
    cluster.tell_nodes()
    assert "You are invited to cid@example.org Ltd" in (await cluster.get(ann, "/")).text
    assert "You are invited" not in (await cluster.get(cid, "/")).text


async def test_an_invalid_key_is_counted_once(cluster):
    for _ in range(BAD_KEYS_PER_MINUTE):
        refused = await cluster.home.get(
            "/overview.json", headers={"authorization": f"Bearer sk_{43 * 'x'}"}
        )
        assert refused.status_code == 401
    refused = await cluster.home.get(
        "/overview.json", headers={"authorization": f"Bearer sk_{43 * 'x'}"}
    )
    assert refused.status_code == 429


async def test_people_sign_in_and_change_things_at_home(cluster):
    ann = cluster.person("ann@example.org")
    budget = {"period": "month", "limit_usd": 5, "action": "warn"}
    stored = await cluster.home.put("/api/budget", json=budget, headers=ann.bearer)
    assert stored.status_code == 200
    cluster.transport.apps.clear()
    assert (await cluster.home.get("/")).headers["location"].startswith("/sign-in")
    assert (await cluster.home.get("/overview.json")).status_code == 401
    page = await cluster.get(ann, "/settings/budgets")
    assert page.status_code == 200
    assert "what was spent cannot be read now" in page.text  # and not that it is nothing
    assert (await cluster.get(ann, "/api/proxy-endpoints", **ann.bearer)).status_code == 200


async def test_an_erasure_is_counted_where_the_calls_are_and_ordered_at_home(cluster):
    ann = cluster.person("ann@example.org")

    async def ask(**criteria):
        return await cluster.home.post("/api/erasures", json=criteria, headers=ann.bearer)

    for expected, node in ((2, "main"), (1, "copy")):
        counted = await ask(until="2999-01-01", dry_run=True)
        assert counted.json()["entries"] == expected
        assert counted.json()["id"] is None
        del cluster.transport.apps[NODES[node]]
    assert (await ask(until="2999-01-01", dry_run=True)).status_code == 503
    ordered = await ask(until="2999-01-01")
    assert ordered.status_code == 202
    assert {each["node"] for each in ordered.json()["copies"]} == {"main", "copy"}
    for body in (b"", b"[]", b"{", b'{"dry_run": 1}'):
        headers = ann.bearer | {"content-type": "application/json"}
        refused = await cluster.home.post("/api/erasures", content=body, headers=headers)
        assert refused.status_code == 400


async def test_a_node_without_people_takes_no_order(cluster):
    ann = cluster.person("ann@example.org")
    app = cluster.transport.apps[NODES["main"]]
    signed = cluster.sign(ann, "/api/erasures", method="POST")
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url=f"http://{NODES['main']}"
    ) as client:
        refused = await client.post("/api/erasures", json={"session": "s"}, headers=signed)
    assert refused.status_code == 403


async def test_a_node_without_people_answers_only_requests_with_a_statement_for_them(cluster):
    ann = cluster.person("ann@example.org")
    assert (await cluster.ask_node(**cluster.sign(ann))).status_code == 200
    for changes in (
        {"key": Ed25519PrivateKey.generate()},
        {"at_s": 0.0},
        {"at_s": time.time() + 10 * VALID_S},
        {"node": "copy"},
        {"path": "/savings.json"},
        {"method": "HEAD"},
    ):
        refused = await cluster.ask_node(**cluster.sign(ann, **changes))
        assert refused.status_code == 403, changes
        assert refused.json()["error"]["code"] == REFUSED
    for headers in ({}, ann.cookie, ann.bearer, {HEADER: "e30.e30"}, {HEADER: b"\xff"}):
        assert (await cluster.ask_node(**headers)).status_code == 403
    good = cluster.sign(ann)[HEADER]
    body, _, signature = good.partition(".")
    for forged in (f"{body}x.{signature}", f"{body}.{signature[:-4]}AAA=", body, f"{good}.{good}"):
        assert (await cluster.ask_node(**{HEADER: forged})).status_code == 403
    assert (await cluster.ask_node("/livez")).status_code == 200


async def test_a_statement_from_outside_says_nothing_at_home(cluster):
    ann, cid = cluster.person("ann@example.org"), cluster.person("cid@example.org")
    rows = await cluster.get(
        cid, "/traces/usage_log.json?_shape=array", **cid.cookie, **cluster.sign(ann)
    )
    assert rows.status_code == 200, rows.text
    assert {row["model"] for row in rows.json()} == {"model-of-cid"}


async def test_a_response_is_cut_when_its_caller_may_no_longer_read(monkeypatch):
    monkeypatch.setattr(forwarding, "CHECK_S", 0.0)
    allowed = iter([True, False])

    async def chunks():
        while True:
            yield b"row\n"

    async def check():
        return next(allowed)

    sent = []

    async def send(message):
        sent.append(message)

    await forwarding._send(httpx.Response(200, content=chunks()), check, send)
    assert [each.get("body") for each in sent] == [None, b"row\n"]
    assert sent[-1]["more_body"]


async def test_work_for_a_client_ends_when_it_has_gone():
    async def receive():
        return {"type": "http.disconnect"}

    ended = asyncio.Event()

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await forwarding.until_gone(receive, work())
    assert ended.is_set()
