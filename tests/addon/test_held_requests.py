import pytest

from addon.exchange import LEAST_UPLOAD_BYTES_PER_S, Exchange, Phase
from addon.held_requests import HeldRequestPolicy
from addon.web_forwarding import MAX_WEB_BODY_BYTES
from tests.addon.endpoints import ENDPOINT


@pytest.fixture
def limits(exchanges, memory, heads, responder):
    return HeldRequestPolicy(exchanges, memory, heads, responder, largest_held_bytes=1000)


@pytest.fixture
async def uploading(exchanges, connect, make_flow):
    """A flow whose request body is coming in."""
    flow = make_flow()
    flow.live = True
    connect(flow.client_conn)
    exchanges.begin(flow, Exchange(endpoint=ENDPOINT), {})
    return flow


async def test_a_body_grows_while_there_is_memory_and_is_refused_then(
    limits, memory, settings, uploading, proxyserver
):
    exchange_id = uploading.client_conn.id
    assert limits.may_hold(uploading, 1000)
    assert memory.total_bytes == 1000
    assert not limits.may_hold(uploading, settings.request_memory + 1)
    handler = proxyserver.connections[exchange_id]
    assert handler.client_transport.written.startswith(b"HTTP/1.1 503 ")
    assert uploading.error is not None


def test_a_body_that_we_respond_to_ourselves_is_not_counted(limits, memory, make_flow):
    assert limits.may_hold(make_flow(), 1 << 40)
    assert memory.total_bytes == 0


async def test_a_body_for_the_web_process_that_grows_too_large_is_refused(
    limits, exchanges, memory, make_flow, connect
):
    flow = make_flow("POST", "/sign-in")
    flow.live = True
    handler = connect(flow.client_conn)
    exchanges.begin(flow, Exchange(), {})
    assert limits.may_hold(flow, MAX_WEB_BODY_BYTES)
    assert not limits.may_hold(flow, MAX_WEB_BODY_BYTES + 1)
    assert handler.client_transport.written.startswith(b"HTTP/1.1 413 ")


async def test_what_is_held_of_a_body_pays_for_its_time_once(limits, exchanges, uploading):
    exchange = exchanges.find(uploading.client_conn.id)
    exchange.upload_since_s = began_s = exchange.upload_since_s - 50
    for held_bytes in (LEAST_UPLOAD_BYTES_PER_S, 2 * LEAST_UPLOAD_BYTES_PER_S):
        limits.may_hold(uploading, held_bytes)
    assert exchange.upload_since_s == pytest.approx(began_s + 2)


async def test_a_body_that_is_streamed_takes_no_memory(limits, memory, exchanges, uploading):
    limits.may_hold(uploading, 1000)
    limits.stop_holding(uploading)
    assert memory.total_bytes == 0
    exchange = exchanges.find(uploading.client_conn.id)
    assert uploading.request.stream == exchange.pass_request_chunk


async def test_a_client_connection_connects_while_its_exchange_does(limits, exchanges, uploading):
    client_id = uploading.client_conn.id
    assert not limits.is_connecting(client_id)
    exchanges.enter(client_id, Phase.CONNECT)
    assert limits.is_connecting(client_id)
    assert not limits.is_connecting("another")
