from dataclasses import replace

import pytest

from addon.budgets import Budgets
from addon.errors import Refusal
from addon.rate_limits import MESSAGES_PER_MINUTE, RateLimits
from addon.responder import ORIGIN
from addon.routing import find_route
from addon.upstream_forwarding import LOGGED_REQUEST_LIMIT_BYTES, UpstreamForwarder
from addon.upstream_paths import list_billed
from runtime.http_proxies import parse_http_proxy
from runtime.node import Node
from runtime.setting_values import parse_upstream, parse_upstreams
from runtime.settings import Settings
from store.budget_file import BudgetFile, ReachedBudget
from store.control.database import ControlDatabase
from store.control.management import Management


@pytest.fixture
def control(settings):
    with ControlDatabase(settings.control_path) as control:
        control.set_up()
        yield control


@pytest.fixture
def settings(tmp_path):
    return Settings.from_env(
        {
            "TAXIMETER_DATA_DIR": str(tmp_path),
            "TAXIMETER_UPSTREAM_URL": "https://upstream.example:8443/prefix",
            "TAXIMETER_FORWARD_HEADERS": "x-gateway-",
        }
    )


@pytest.fixture
def make_forwarder(exchanges, memory, windows):
    made = []

    def make(settings):
        limits = RateLimits(windows, lambda _endpoint, _destination: None)
        budgets = Budgets(BudgetFile(settings.data_dir), lambda _endpoint: None)
        made.append(UpstreamForwarder(settings, exchanges, memory, limits, budgets))
        return made[-1]

    yield make
    for forwarder in made:
        forwarder.slugs.close()


@pytest.fixture
def forwarder(settings, control, make_forwarder):
    return make_forwarder(settings)


def forward(forwarder, flow):
    route = find_route(flow.request.method, flow.request.path)
    assert not isinstance(route, Refusal)
    return forwarder.forward(flow, route)


def get_code(forwarder, flow):
    refusal = forward(forwarder, flow)
    assert isinstance(refusal, Refusal)
    return refusal.code


def test_a_message_goes_to_the_upstream_under_its_prefix(forwarder, exchanges, make_flow):
    flow = make_flow(path="/proxy/default/run/build-42/v1/messages?beta=true")
    assert forward(forwarder, flow) is None
    request = flow.request
    assert (request.scheme, request.host, request.port) == ("https", "upstream.example", 8443)
    assert request.path == "/prefix/v1/messages?beta=true"
    assert request.headers["host"] == "upstream.example:8443"
    exchange = exchanges.find(flow.client_conn.id)
    assert exchange is not None
    assert (exchange.target, exchange.run_id) == ("/v1/messages?beta=true", "build-42")
    assert exchange.record == "messages"
    assert not request.stream  # it is read whole and spooled before it is sent


def test_an_endpoint_with_an_upstream_of_its_own_uses_no_other(
    settings, control, exchanges, make_forwarder, make_flow
):
    named = replace(settings, upstreams=parse_upstreams("eu=http://eu.example:8000/eu"))
    management = Management(control, settings.data_dir, upstreams={"eu", "gone"})
    for name in ("eu", "gone"):
        management.create_endpoint(management.local_caller(), name, name, upstream=name)
    forwarder = make_forwarder(named)
    for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/models"):
        flow = make_flow(path=f"/proxy/eu{path}")
        assert forward(forwarder, flow) is None
        request = flow.request
        assert (request.scheme, request.host, request.port) == ("http", "eu.example", 8000)
        assert (request.path, request.headers["host"]) == (f"/eu{path}", "eu.example:8000")
        assert get_code(forwarder, make_flow(path=f"/proxy/gone{path}")) == "unknown_upstream"
    assert len(exchanges.find_all()) == 3


def test_a_new_proxy_node_says_that_it_does_not_know_the_slugs_yet(
    settings, make_forwarder, make_flow
):
    with ControlDatabase(settings.control_path) as control:
        node = replace(settings, node=Node(parts=frozenset({"proxy"}), copy="main"))
        forwarder = make_forwarder(node)
        assert not forwarder.knows_slugs()
        assert get_code(forwarder, make_flow()) == "directory_unavailable"
        control.set_up()
        assert forwarder.knows_slugs()
        assert get_code(forwarder, make_flow(path="/proxy/none/v1/messages")) == "unknown_slug"


def test_requests_are_refused_before_they_are_read(forwarder, exchanges, memory, make_flow):
    too_large = make_flow()
    too_large.request.stream = True  # mitmproxy streams what is declared larger
    key = "sk_" + "k" * 43
    unknown_key = make_flow(headers=[("authorization", f"Bearer {key}")])
    assert get_code(forwarder, make_flow(path="/proxy/none/v1/messages")) == "unknown_slug"
    assert get_code(forwarder, make_flow(headers=[("upgrade", "h2c")])) == "upgrade_refused"
    assert get_code(forwarder, too_large) == "request_too_large"
    assert forward(forwarder, unknown_key) is None  # an upstream may have such keys too
    assert LOGGED_REQUEST_LIMIT_BYTES > 32_000_000
    exchanges.end(unknown_key)
    memory.hold("others", 1 << 40)
    assert get_code(forwarder, make_flow(headers=[("content-length", "1000000")])) == "memory_full"
    assert exchanges.find_all() == []


def test_a_64_of_ipv6_is_one_client_to_the_memory(forwarder, exchanges, make_flow):
    flow = make_flow()
    flow.client_conn.peername = ("2001:db8::1:2:3:4", 1)
    assert forward(forwarder, flow) is None
    [(_, exchange)] = exchanges.find_all()
    assert exchange.client_address == "2001:db8::/64"


def test_above_the_limit_nothing_is_forwarded(forwarder, exchanges, make_flow):
    for _ in range(MESSAGES_PER_MINUTE):
        assert forward(forwarder, make_flow()) is None
    before = len(exchanges.find_all())
    assert get_code(forwarder, make_flow()) == "rate_limited"
    assert len(exchanges.find_all()) == before
    assert forward(forwarder, make_flow(path="/proxy/default/v1/messages/count_tokens")) is None


def test_over_the_budget_nothing_is_forwarded_and_no_rate_limit_used_up(
    forwarder, settings, control, exchanges, make_flow
):
    organization_id = control.get_local_organization().id
    reached = ReachedBudget(
        organization_id=organization_id,
        subject_id=organization_id,
        period="month",
        starts_s=0.0,
        resets_s=1e12,
        resets_at="never",
    )
    forwarder._budgets._reached = {organization_id: reached}
    for _ in range(MESSAGES_PER_MINUTE):
        assert get_code(forwarder, make_flow()) == "budget_reached"
    for path in list_billed():
        flow = make_flow(path=f"/proxy/default{path.replace('<id>', 'x_1')}")
        assert get_code(forwarder, flow) == "budget_reached", path
    assert exchanges.find_all() == []
    for path in ("/v1/messages/count_tokens", "/v1/sessions/s_1/archive", "/v1/files"):
        assert forward(forwarder, make_flow(path=f"/proxy/default{path}")) is None
    forwarder._budgets._reached = {}
    assert forward(forwarder, make_flow()) is None


def test_without_control_db_slugs_are_unavailable_and_that_is_logged_once(
    forwarder, settings, make_flow, caplog
):
    settings.control_path.unlink()
    settings.control_path.mkdir()
    forwarder.slugs.notice_replacement()
    for _ in range(2):
        assert get_code(forwarder, make_flow()) == "directory_unavailable"
    assert caplog.text.count("control.db cannot be read") == 1


ODD = [("x-odd", "1"), ("cookie", "a=b"), ("x-taximeter-headers", "all")]


@pytest.mark.parametrize(
    ("path", "headers", "passes"),
    [
        ("/proxy/default/run/abc/v1/messages", ODD, True),
        ("/proxy/default/v1/messages", ODD, False),
        ("/proxy/default/run/abc/v1/messages", ODD[:2], False),
        ("/proxy/default/run/abc/v1/messages", [*ODD[:2], (ODD[2][0], "some")], False),
    ],
)
def test_all_headers_pass_where_the_forward_proxy_of_a_run_asks_for_it(
    forwarder, make_flow, path, headers, passes
):
    flow = make_flow(path=path, headers=headers)
    assert forward(forwarder, flow) is None
    assert ("x-odd" in flow.request.headers) is passes
    assert ("cookie" in flow.request.headers) is passes
    assert "x-taximeter-headers" not in flow.request.headers


def test_a_page_cannot_ask_for_all_headers(forwarder, make_flow):
    """Its cookies may be those of the dashboard."""
    flow = make_flow(path="/proxy/default/run/abc/v1/messages", headers=ODD)
    flow.metadata[ORIGIN] = b"https://app.example.org"
    assert forward(forwarder, flow) is None
    assert "cookie" not in flow.request.headers


@pytest.mark.parametrize(
    ("upstream_url", "via"),
    [
        ("https://upstream.example:8443", ("https", ("proxy.example", 3128))),
        ("http://127.0.0.1:8000", None),
    ],
)
def test_an_upstream_elsewhere_is_reached_through_the_proxy(
    settings, control, make_forwarder, make_flow, upstream_url, via
):
    changed = replace(
        settings,
        upstream_url=parse_upstream(upstream_url),
        upstream_proxy=parse_http_proxy("https://proxy.example:3128"),
    )
    flow = make_flow()
    assert forward(make_forwarder(changed), flow) is None
    assert flow.server_conn.via == via
