import pytest

from addon.exchange import Exchange, Phase
from tests.addon.endpoints import ENDPOINT


@pytest.fixture
def begin(exchanges):
    def begin_one(flow):
        exchange = Exchange(endpoint=ENDPOINT)
        exchanges.begin(flow, exchange, flow.request.headers.fields)
        return exchange

    return begin_one


@pytest.mark.parametrize(
    ("version", "connection", "close_after"),
    [
        ("HTTP/1.1", "keep-alive", False),
        ("HTTP/1.1", "close", True),
        ("HTTP/1.0", "keep-alive", True),
    ],
)
def test_the_upstream_is_spoken_to_in_http_1_1_whatever_the_client_speaks(
    make_flow, begin, version, connection, close_after
):
    flow = make_flow(headers=[("connection", connection)])
    flow.request.http_version = version
    exchange = begin(flow)
    assert flow.request.http_version == "HTTP/1.1"
    assert exchange.is_http_1_0 is (version == "HTTP/1.0")
    assert exchange.close_after is close_after


@pytest.mark.parametrize(("expectation", "kept"), [("100-Continue", True), ("a-surprise", False)])
def test_only_the_expectation_that_the_core_meets_is_left(make_flow, begin, expectation, kept):
    flow = make_flow(headers=[("expect", expectation)])
    begin(flow)
    assert ("expect" in flow.request.headers) is kept


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
    exchange.is_logged = True
    spooler.capture(exchange, (), b"{}")
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
