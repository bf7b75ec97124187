"""The addon's hooks, driven by mitmproxy's own test helpers; ``tests/live`` drives them by sockets."""

import json
from types import SimpleNamespace

import pytest
from mitmproxy import http
from mitmproxy.connection import ConnectionState
from mitmproxy.flow import Error
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from addon.core import connections
from addon.exchange import Phase
from addon.proxy import UsageProxy
from store.control.database import ControlDatabase
from tests.addon.spooling import read_all

BODY = b'{"model":"m"}'


@pytest.fixture
async def proxy(settings, config, proxyserver):
    with ControlDatabase(settings.control_path) as control:
        control.set_up()
    proxy = UsageProxy(settings, config)
    yield proxy
    await proxy.done()


@pytest.fixture
def spooled(settings):
    """Returns the exchanges in the spool."""
    return lambda: read_all(settings.spool_path)


def send(proxy, flow):
    """Take a flow to where its request has been sent to the upstream."""
    flow.server_conn.timestamp_start = None
    proxy.client_connected(flow.client_conn)
    assert proxy.requestheaders(flow) is None
    proxy.request(flow)
    data = ServerConnectionHookData(client=flow.client_conn, server=flow.server_conn)
    proxy.server_connect(data)
    proxy.server_connected(data)
    flow.server_conn.timestamp_start = 1.0


def respond(proxy, flow, *chunks, fields=()):
    """Let the upstream respond; return what goes on to the client at once."""
    flow.response = http.Response.make(200, b"", http.Headers(fields))
    proxy.responseheaders(flow)
    return [piece for chunk in chunks for piece in flow.response.stream(chunk)]


def test_a_call_is_forwarded_chunk_by_chunk_and_spooled(proxy, make_flow, spooled):
    flow = make_flow(headers=[("x-api-key", "sk-ant-x"), ("cookie", "c")], content=BODY)
    send(proxy, flow)
    assert list(flow.request.headers) == ["host", "x-api-key"]
    assert respond(proxy, flow, b"a", b"b") == [b"a", b"b"]
    assert spooled() == []
    proxy.response(flow)
    (exchange,) = spooled()
    assert (exchange.request_body, exchange.response_body) == (BODY, b"ab")
    assert exchange.ending.outcome == "complete"
    assert exchange.ending.response_bytes == 2


def test_what_was_sent_is_not_kept_in_memory_while_the_response_streams(proxy, make_flow):
    flow = make_flow(content=BODY)
    send(proxy, flow)
    respond(proxy, flow)
    assert flow.request.raw_content is None
    proxy.response(flow)
    assert flow.response.stream is False


async def test_an_upstream_that_fails_before_its_response_is_a_502_of_ours(
    proxy, make_flow, connect, spooled
):
    flow = make_flow(content=BODY)
    handler = connect(flow.client_conn)
    send(proxy, flow)
    flow.error = Error("server closed connection")
    proxy.error(flow)
    head, _, body = handler.client_transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 502 ")
    assert json.loads(body)["error"]["type"] == "api_error"
    (exchange,) = spooled()
    assert exchange.ending.outcome == "upstream_interrupted"
    assert exchange.response is None


async def test_a_response_that_is_cut_is_cut_for_an_http_1_0_client_too(
    proxy, make_flow, connect, spooled, monkeypatch
):
    reset: list[object] = []
    monkeypatch.setattr(connections, "reset_client", reset.append)
    flow = make_flow()
    flow.request.http_version = "HTTP/1.0"
    handler = connect(flow.client_conn)
    send(proxy, flow)
    respond(proxy, flow, b"first")
    flow.error = Error("server closed connection")
    proxy.error(flow)
    assert reset == [handler]
    (exchange,) = spooled()
    assert (exchange.response_body, exchange.ending.outcome) == (b"first", "upstream_interrupted")


@pytest.mark.usefixtures("proxyserver")
def test_a_client_that_leaves_before_anything_was_sent_leaves_no_entry(proxy, make_flow, spooled):
    flow = make_flow()
    send(proxy, flow)
    flow.server_conn.timestamp_start = None
    flow.client_conn.state = ConnectionState.CLOSED
    flow.error = Error("Client disconnected.")
    proxy.error(flow)
    assert spooled() == []


def test_a_mistake_of_ours_before_a_request_is_forwarded_is_a_500(
    proxy, make_flow, monkeypatch, caplog
):
    monkeypatch.setattr(proxy._dispatcher, "dispatch", fail)
    flow = make_flow()
    proxy.requestheaders(flow)
    assert flow.response.status_code == 500
    assert "failed before it was forwarded" in caplog.text


def test_a_mistake_of_ours_in_capturing_costs_the_log_a_call_and_the_client_nothing(
    proxy, make_flow, monkeypatch, caplog
):
    monkeypatch.setattr(proxy._spooler, "_open", fail)
    flow = make_flow()
    send(proxy, flow)
    assert respond(proxy, flow, b"text") == [b"text"]
    proxy.response(flow)
    assert proxy._spooler.troubles.calls_not_kept == 1
    assert "without being kept" in caplog.text


def test_what_the_core_has_refused_already_is_left_alone(proxy, make_flow):
    flow = make_flow()
    flow.error = Error("CONNECT")
    assert proxy.requestheaders(flow) is None
    assert flow.response is None


async def test_healthz_is_awaited(proxy, make_flow):
    flow = make_flow("GET", "/healthz")
    awaited = proxy.requestheaders(flow)
    assert awaited is not None
    await awaited
    assert flow.response.status_code == 503  # there is no recorder here


def test_with_tls_the_first_byte_is_waited_for_once_the_handshake_is_done(proxy, make_flow):
    flow = make_flow()
    flow.server_conn.tls = True
    send(proxy, flow)
    exchange = proxy._exchanges.find(flow.client_conn.id)
    assert exchange.phase.value == "connect"
    proxy.tls_established_server(SimpleNamespace(context=SimpleNamespace(client=flow.client_conn)))
    assert exchange.phase is Phase.FIRST_BYTE


def fail(*_arguments):
    raise ValueError("a mistake")


@pytest.mark.parametrize(
    ("path", "idle_in_its_body"), [("/sign-in", True), ("/proxy/default/v1/messages", False)]
)
def test_a_connection_is_idle_until_its_request_goes_on(proxy, make_flow, path, idle_in_its_body):
    flow = make_flow(path=path)
    idle = proxy._idle_connections._idle
    proxy.client_connected(flow.client_conn)
    assert list(idle) == [flow.client_conn.id]
    proxy.requestheaders(flow)
    assert (list(idle) == [flow.client_conn.id]) is idle_in_its_body
    proxy.request(flow)
    assert list(idle) == []
    flow.server_conn.timestamp_start = 1.0
    respond(proxy, flow)
    flow.client_conn.state = ConnectionState.OPEN
    proxy.response(flow)
    assert list(idle) == [flow.client_conn.id]
    proxy.client_disconnected(flow.client_conn)
    assert list(idle) == []
