import time
from types import SimpleNamespace

import pytest
from mitmproxy.connection import Server

from addon.exchange import LEAST_UPLOAD_BYTES_PER_S, Exchange, Phase
from addon.timeouts import WEB_UNREAD_S, Timeouts, compute_longest_silence_s
from runtime.worker_board import Shared
from store.control.database import ProxyEndpoint
from tests.addon.endpoints import ENDPOINT
from tests.addon.spooling import read_all

LATER_S = 1e12


@pytest.fixture
def timeouts(settings, exchanges, heads, responder):
    return Timeouts(settings, exchanges, heads, responder)


@pytest.fixture
def begin(exchanges, make_flow):
    """Begins exchanges of a connection, each in a phase."""

    def begin_one(client, phase, endpoint: ProxyEndpoint | None = ENDPOINT, **fields):
        flow = make_flow()
        flow.client_conn = client
        exchange = Exchange(endpoint=endpoint, record="messages", phase=phase, **fields)
        exchanges.begin(flow, exchange, {})
        return exchange

    return begin_one


async def connect_upstream(handler):
    server = Server(address=("127.0.0.1", 3))
    return server, handler.open(server)


@pytest.mark.parametrize("phase", [Phase.CONNECT, Phase.FIRST_BYTE, Phase.IDLE])
async def test_an_upstream_that_is_silent_for_too_long_is_closed(timeouts, begin, connect, phase):
    handler = connect()
    server, _ = await connect_upstream(handler)
    exchange = begin(handler.client, phase, request_is_whole=True)
    timeouts.close_overdue(time.monotonic())
    assert handler.closed == []
    timeouts.close_overdue(LATER_S)
    timeouts.close_overdue(LATER_S)  # it is ended once
    assert handler.closed == [server]
    assert exchange.timed_out is phase


@pytest.mark.parametrize(
    ("unsent_bytes", "later_s", "ends"),
    [(1, WEB_UNREAD_S - 1, False), (1, WEB_UNREAD_S + 1, True), (0, WEB_UNREAD_S + 1, False)],
)
async def test_a_client_that_takes_nothing_of_a_page_is_ended(
    timeouts, begin, connect, unsent_bytes, later_s, ends
):
    """Closed in order, its connection would wait for it to take what is in the buffer."""
    handler = connect()
    handler.client_transport.unsent_bytes = unsent_bytes
    exchange = begin(handler.client, Phase.IDLE, request_is_whole=True, endpoint=None)
    timeouts.close_overdue(exchange.waiting_since_s + later_s)
    assert handler.client_transport.was_aborted == ends


async def test_a_client_that_takes_nothing_of_a_call_keeps_its_time(timeouts, begin, connect):
    handler = connect()
    handler.client_transport.unsent_bytes = 1
    begin(handler.client, Phase.IDLE, request_is_whole=True)
    timeouts.close_overdue(time.monotonic() + WEB_UNREAD_S + 1)
    assert not handler.client_transport.was_aborted


async def test_a_client_that_goes_on_sending_fast_enough_is_never_ended(
    timeouts, begin, connect, settings
):
    handler = connect()
    exchange = begin(handler.client, Phase.REQUEST)
    exchange.upload_since_s = began_s = exchange.upload_since_s - 100
    exchange.pass_request_chunk(bytes(11 * LEAST_UPLOAD_BYTES_PER_S))
    timeouts.close_overdue(began_s + settings.request_idle_seconds + 10)
    assert handler.closed == []


async def test_what_came_fast_does_not_pay_for_a_long_silence(timeouts, begin, connect, settings):
    handler = connect()
    exchange = begin(handler.client, Phase.REQUEST)
    exchange.pass_request_chunk(bytes(100 * LEAST_UPLOAD_BYTES_PER_S))
    timeouts.close_overdue(time.monotonic() + settings.request_idle_seconds + 1)
    assert handler.client in handler.closed


async def test_a_client_that_waits_for_its_upstream_has_all_its_time_again_after_that(
    timeouts, begin, connect, settings
):
    handler = connect()
    _, transport = await connect_upstream(handler)
    exchange = begin(handler.client, Phase.FIRST_BYTE)
    exchange.upload_since_s -= settings.request_idle_seconds + 1
    transport.unsent_bytes = 1
    timeouts.close_overdue(time.monotonic())
    transport.unsent_bytes = 0
    timeouts.close_overdue(time.monotonic())
    assert handler.closed == []


def lose_connection(timeouts, begin, spooler, memory, phase):
    """Begin an exchange whose connection is gone without a hook; return the outcomes in the spool."""
    client = SimpleNamespace(id="gone")
    exchange = begin(client, phase, timed_out=phase)
    spooler.capture(exchange, {}, b"{}")
    memory.hold(client.id, 1000)
    timeouts.close_overdue(time.monotonic())
    return [each.ending.outcome for each in read_all(spooler._root)]


@pytest.mark.parametrize(
    ("phase", "outcomes"),
    [
        (Phase.FIRST_BYTE, ["client_disconnected"]),
        (Phase.IDLE, ["client_disconnected"]),
        (Phase.REQUEST, []),  # it was never sent
        (Phase.CONNECT, []),
    ],
)
@pytest.mark.usefixtures("proxyserver")
def test_an_exchange_whose_connection_is_gone_is_over_and_holds_no_memory(
    timeouts, begin, spooler, exchanges, memory, phase, outcomes
):
    assert lose_connection(timeouts, begin, spooler, memory, phase) == outcomes
    assert exchanges.find_all() == []
    assert memory.total_bytes == 0


async def test_a_head_that_has_begun_is_refused_when_it_takes_too_long(timeouts, heads, connect):
    handler = connect()
    heads.await_rest(handler.client.id)
    timeouts.close_slow_heads(time.monotonic())
    assert handler.closed == []
    timeouts.close_slow_heads(LATER_S)
    assert handler.client_transport.written.startswith(b"HTTP/1.1 408 ")
    assert handler.closed == [handler.client]
    assert heads._board.total(Shared.SLOW_HEADS_REFUSED) == 1


async def test_a_connection_that_never_sends_is_closed_in_silence(timeouts, heads, connect):
    handler = connect()
    heads.await_first(handler.client.id)
    timeouts.close_slow_heads(LATER_S)
    assert handler.client_transport.written == b""
    assert handler.closed == [handler.client]


def test_mitmproxys_own_timeout_comes_after_the_longest_of_ours(settings):
    longest = max(settings.upstream_timeout.first_byte, settings.upstream_timeout.idle)
    assert compute_longest_silence_s(settings) > longest
