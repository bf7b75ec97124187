import pytest

from addon import errors

REFUSAL = errors.unknown_slug("x")


@pytest.fixture
async def flow_of(connect, make_flow):
    """Makes flows with a client connection; returns flow and handler."""

    def make(**arguments):
        flow = make_flow(**arguments)
        return flow, connect(flow.client_conn)

    return make


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
