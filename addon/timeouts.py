"""Timeouts: exchanges and request heads that take too long are ended.

mitmproxy has one timeout, for a client connection without any traffic. Ours are for each phase of an
exchange, so that the response says what took too long."""

import math

from mitmproxy.proxy.mode_servers import ProxyConnectionHandler

from addon import errors
from addon.core import connections
from addon.exchange import Exchange, Phase
from addon.exchanges import Exchanges
from addon.own_responses import to_response
from addon.request_heads import RequestHeads
from addon.responder import Responder
from runtime.settings import Settings

# The web process has cut the response by then; but neither end is told while the client takes nothing.
WEB_UNREAD_S = 60.0


class Timeouts:
    """Checks all exchanges and request heads when called, several times a second."""

    def __init__(
        self, settings: Settings, exchanges: Exchanges, heads: RequestHeads, responder: Responder
    ) -> None:
        self._allowed = settings.upstream_timeout
        self._request_idle_s = settings.request_idle_seconds
        self._exchanges = exchanges
        self._heads = heads
        self._responder = responder

    def close_overdue(self, now_s: float) -> None:
        """End the exchanges that have waited for too long. ``now_s`` is of the monotonic clock."""
        for client_id, exchange in self._exchanges.find_all():
            handler = connections.find_handler(client_id)
            if handler is None:
                self._give_up(client_id, exchange)
            elif exchange.timed_out is None:
                self._judge(handler, exchange, now_s)

    def _judge(self, handler: ProxyConnectionHandler, exchange: Exchange, now_s: float) -> None:
        if exchange.endpoint is None and connections.is_client_behind(handler):
            if now_s - exchange.waiting_since_s > WEB_UNREAD_S:
                exchange.timed_out = exchange.phase
                connections.abort_client(handler)
            return
        waits_for_client = exchange.waits_for_client
        if waits_for_client and not connections.is_upstream_behind(handler):
            if now_s - exchange.upload_since_s > self._request_idle_s:
                refusal = errors.request_stalled(self._request_idle_s)
                self._responder.send_last(handler, refusal, exchange.origin)
                connections.close_client(handler)  # what has come of its body takes memory
            return
        if waits_for_client:
            exchange.upload_since_s = now_s  # it cannot be quicker than its upstream
        if exchange.phase is not Phase.REQUEST:
            allowed_s: float = getattr(self._allowed, exchange.phase.value)
            if now_s - exchange.waiting_since_s > allowed_s:
                exchange.timed_out = exchange.phase
                connections.close_upstream(handler)

    def _give_up(self, client_id: str, exchange: Exchange) -> None:
        """End an exchange whose connection has ended without a hook, since mitmproxy crashed on it."""
        self._exchanges.remove(client_id)
        if exchange.phase in (Phase.FIRST_BYTE, Phase.IDLE):  # something of it may have been sent
            exchange.finish("client_disconnected")
        else:
            exchange.discard()

    def close_slow_heads(self, now_s: float) -> None:
        """Close connections whose request head is not complete in time."""
        for client_id, has_begun in self._heads.take_overdue(now_s - self._request_idle_s):
            handler = connections.find_handler(client_id)
            if handler is not None:
                refusal = errors.slow_head(self._request_idle_s)
                if has_begun:
                    self._heads.count_too_slow()
                connections.close_client(handler, to_response(refusal) if has_begun else None)


def compute_longest_silence_s(settings: Settings) -> int:
    """Return the value for mitmproxy's own timeout in seconds, which must never come before one of ours."""
    timeouts = settings.upstream_timeout
    return math.ceil(max(timeouts.connect, timeouts.first_byte, timeouts.idle)) + 60
