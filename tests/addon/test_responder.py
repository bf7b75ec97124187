import json

import pytest

from addon import errors
from addon.core import request_reading
from addon.responder import KEPT_BODY_BYTES, ORIGIN

REFUSAL = errors.unknown_slug("x")


@pytest.fixture
async def flow_of(connect, make_flow):
    """Makes flows with a client connection; returns flow and handler."""

    def make(**arguments):
        flow = make_flow(**arguments)
        return flow, connect(flow.client_conn)

    return make


@pytest.mark.parametrize("length", ["0", str(KEPT_BODY_BYTES)])
async def test_a_small_body_is_read_so_that_the_connection_survives(responder, flow_of, length):
    flow, handler = flow_of(headers=[("content-length", length)])
    responder.respond(flow, REFUSAL)
    assert flow.response.status_code == 404
    assert "connection" not in flow.response.headers
    assert handler.client_transport.written == b""


@pytest.mark.parametrize(
    "header",
    [
        ("content-length", str(KEPT_BODY_BYTES + 1)),
        ("transfer-encoding", "chunked"),
        ("expect", "100-continue"),
    ],
)
async def test_other_bodies_are_not_waited_for(responder, flow_of, header):
    flow, handler = flow_of(headers=[header])
    flow.live = True
    responder.respond(flow, REFUSAL)
    head, _, body = handler.client_transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert b"connection: close" in head
    assert json.loads(body)["error"]["type"] == "not_found_error"
    assert flow.error is not None
    assert handler.client_transport.is_closing()  # our side
    assert handler.closed == []
    assert handler.client in request_reading.refused  # what still comes is thrown away unread


async def test_a_client_that_does_not_end_is_closed_after_a_while(responder, flow_of):
    flow, handler = flow_of(headers=[("transfer-encoding", "chunked")])
    flow.live = True
    responder.respond(flow, REFUSAL)
    responder.close_overdue(0)
    assert handler.closed == []
    responder.close_overdue(1e12)
    assert handler.closed == [handler.client]


async def test_a_client_whose_request_came_whole_is_not_closed(responder, flow_of):
    flow, handler = flow_of(headers=[("content-length", "5")])
    responder.respond(flow, REFUSAL)
    responder.forget(flow.client_conn.id)
    responder.close_overdue(1e12)
    assert handler.closed == []


async def test_while_draining_each_response_is_the_last(responder, draining, flow_of):
    draining.has_begun = True
    flow, _ = flow_of()
    responder.respond(flow, REFUSAL)
    assert flow.response.headers["connection"] == "close"


async def test_pages_of_listed_origins_can_read_our_responses(responder, flow_of):
    flow, _ = flow_of()
    flow.metadata[ORIGIN] = b"https://app.example"
    responder.respond(flow, REFUSAL)
    assert flow.response.headers["access-control-allow-origin"] == "https://app.example"
    assert flow.response.headers["x-taximeter-error"] == "unknown_slug"
