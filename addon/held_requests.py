"""The proxy's ``ReadPolicy``: it decides whether more of a request may be held in memory.

``docs/internals/addon.md`` lists the limits, and the modules that enforce them."""

from mitmproxy import http

from addon import errors
from addon.body_memory import BodyMemory
from addon.exchange import Phase
from addon.exchanges import Exchanges
from addon.request_heads import RequestHeads
from addon.responder import Responder
from addon.web_forwarding import MAX_WEB_BODY_BYTES


class HeldRequestPolicy:
    """Implements ``core.read_policy.ReadPolicy`` from the state of the exchanges."""

    def __init__(
        self,
        exchanges: Exchanges,
        memory: BodyMemory,
        heads: RequestHeads,
        responder: Responder,
        largest_held_bytes: int,
    ) -> None:
        self.heads = heads
        self.largest_held_bytes = largest_held_bytes
        self._exchanges = exchanges
        self._memory = memory
        self._responder = responder

    def is_connecting(self, client_id: str) -> bool:
        """Return whether a client connection waits for an upstream connection, or for leave to open one."""
        if client_id in self._exchanges.undecided:
            return True
        exchange = self._exchanges.find(client_id)
        return exchange is not None and exchange.phase is Phase.CONNECT

    def may_hold(self, flow: http.HTTPFlow, held_bytes: int) -> bool:
        """Return whether ``held_bytes`` of a request body may be held; if not, refuse the request."""
        client_id = flow.client_conn.id
        exchange = self._exchanges.find(client_id)
        if exchange is None:
            return True  # the response is one of ours, and the body small
        exchange.note_held(held_bytes)
        if exchange.endpoint is None and held_bytes > MAX_WEB_BODY_BYTES:
            self._responder.respond_at_once(flow, errors.web_body_too_large(MAX_WEB_BODY_BYTES))
            return False
        if self._memory.hold(client_id, held_bytes, exchange.client_address):
            return True
        self._responder.respond_at_once(flow, errors.MEMORY_FULL)
        return False

    def stop_holding(self, flow: http.HTTPFlow) -> None:
        """Note that a request body is streamed because of its size."""
        exchange = self._exchanges.find(flow.client_conn.id)
        if exchange is not None:  # else its head has only just come
            self._memory.release(flow.client_conn.id)
            flow.request.stream = exchange.pass_request_chunk
