from dataclasses import replace

import pytest

from addon.web_forwarding import WebForwarder


@pytest.fixture
def forwarder(settings, config, exchanges):
    return WebForwarder(settings, config, exchanges)


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
