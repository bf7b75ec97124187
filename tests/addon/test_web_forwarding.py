from dataclasses import replace

import pytest

from addon.web_forwarding import WebForwarder


@pytest.fixture
def forwarder(settings, config, exchanges):
    return WebForwarder(settings, config, exchanges)


def test_the_web_process_gets_the_request_with_the_clients_address(forwarder, exchanges, make_flow):
    forged = [("X-Taximeter-Client", "t 10.0.0.1"), ("x-forwarded-for", "10.0.0.2")]
    flow = make_flow("GET", "/settings", forged)
    assert forwarder.forward(flow) is None
    request = flow.request
    assert (request.scheme, request.host, request.port) == ("http", "127.0.0.1", 1234)
    assert request.headers.get_all("x-taximeter-client") == ["t 127.0.0.1"]
    exchange = exchanges.find(flow.client_conn.id)
    assert exchange is not None
    assert (exchange.endpoint, exchange.is_logged) == (None, False)
    assert request.stream is False  # it is read whole before a connection is opened


def test_the_web_process_gets_cookies_and_the_host_and_no_upstream_credential(forwarder, make_flow):
    flow = make_flow("GET", "/", [("cookie", "session=1"), ("x-api-key", "sk-ant-x")])
    forwarder.forward(flow)
    assert flow.request.headers["cookie"] == "session=1"
    assert flow.request.headers["host"] == "localhost"
    assert "x-api-key" not in flow.request.headers


def test_without_a_web_process_the_pages_are_unavailable(settings, config, exchanges, make_flow):
    forwarder = WebForwarder(settings, replace(config, web_port=None), exchanges)
    refusal = forwarder.forward(make_flow("GET", "/"))
    assert refusal is not None
    assert (refusal.status, refusal.code) == (503, "web_unavailable")


def test_a_request_that_announces_more_than_any_form_has_is_too_large(forwarder, make_flow):
    flow = make_flow("POST", "/sign-in", [("content-length", "1048577")])
    flow.request.stream = True
    refusal = forwarder.forward(flow)
    assert (refusal.status, refusal.code) == (413, "request_too_large")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("framing", [("transfer-encoding", "chunked"), ("content-length", "1")])
def test_a_page_is_not_asked_for_with_a_body(forwarder, exchanges, make_flow, method, framing):
    flow = make_flow(method, "/traces", [framing])
    refusal = forwarder.forward(flow)
    assert (refusal.status, refusal.code) == (400, "unexpected_body")
    assert exchanges.find(flow.client_conn.id) is None
    assert forwarder.forward(make_flow(method, "/traces", [("content-length", "0")])) is None
