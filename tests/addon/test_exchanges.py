import pytest

from addon.exchange import Exchange, Phase
from tests.addon.endpoints import ENDPOINT


@pytest.fixture
def begin(exchanges):
    def begin_one(flow):
        exchange = Exchange(endpoint=ENDPOINT)
        exchanges.begin(flow, exchange, {})
        return exchange

    return begin_one


def test_an_exchange_that_is_over_leaves_nothing_in_memory(make_flow, begin, exchanges, memory):
    flow = make_flow(content=b"body")
    exchange = begin(flow)
    flow.request.stream = exchange.pass_request_chunk
    memory.hold(flow.client_conn.id, 4)
    assert exchanges.end(flow) is exchange
    assert exchanges.end(flow) is None
    assert (flow.request.raw_content, flow.request.stream) == (None, False)
    assert memory.total_bytes == 0
    assert exchanges.find(flow.client_conn.id) is None


def test_the_phase_of_a_connection_without_an_exchange_is_nobodys(make_flow, begin, exchanges):
    flow = make_flow()
    exchange = begin(flow)
    exchanges.enter("another", Phase.IDLE)
    assert exchange.phase.value == "request"
    exchanges.enter(flow.client_conn.id, Phase.IDLE)
    assert exchange.phase.value == "idle"


def test_exchanges_that_are_abandoned_stay_unfinished_in_the_spool(
    make_flow, begin, exchanges, spooler, tmp_path
):
    exchange = begin(make_flow())
    exchange.record = "messages"
    spooler.capture(exchange, {}, b"{}")
    exchanges.abandon_all()
    exchange.finish("complete")
    assert exchanges.find_all() == []
    assert [path.suffix for path in (tmp_path / "spool").glob("*/*~*")] != [".done"]
    assert len(list((tmp_path / "spool").glob("*/*~*"))) == 1


def test_what_is_held_of_a_response_counts_in_the_memory(make_flow, begin, exchanges, memory):
    flow = make_flow()
    exchange = begin(flow)
    memory.hold(flow.client_conn.id, 4)
    exchanges.begin_response(flow.client_conn.id, exchange)
    assert memory.total_bytes == 0
    exchange.is_buffered = True
    exchange.take_chunk(b"chunk")
    assert memory.total_bytes == 5
    exchanges.end(flow)
    assert memory.total_bytes == 0
