"""The exchanges that are being forwarded, by the id of their client connection.

A client connection carries one exchange at a time (HTTP/1 without pipelining), and its id is also what
the hooks of connections know.
"""

from functools import partial

from mitmproxy import http

from addon import headers
from addon.body_memory import BodyMemory
from addon.exchange import Exchange, Phase
from addon.holdings import WebSlots
from addon.http1.framing import says_close
from runtime.worker_board import WorkerBoard


class Exchanges:
    """Holds each exchange from the head of its request until it is over. With it go the memory of
    its body and its slot at the web process."""

    def __init__(self, memory: BodyMemory, board: WorkerBoard) -> None:
        self._memory = memory
        self.web_slots = WebSlots(board)
        self._exchanges: dict[str, Exchange] = {}
        # Client connections with a request of which is not known yet whether it is forwarded.
        self.undecided: set[str] = set()

    def find(self, client_id: str) -> Exchange | None:
        """Return the exchange of a client connection, or None when it has none."""
        return self._exchanges.get(client_id)

    def is_awaited(self, client_id: object) -> bool:
        """Return whether a client connection has an exchange that is going to end."""
        exchange = self._exchanges.get(client_id) if isinstance(client_id, str) else None
        return exchange is not None and not exchange.is_endless

    def find_all(self) -> list[tuple[str, Exchange]]:
        """Return all exchanges, each with the id of its client connection."""
        return list(self._exchanges.items())

    def begin(self, flow: http.HTTPFlow, exchange: Exchange, client_headers: headers.Index) -> None:
        """Enter an exchange; ``client_headers`` are those that came.

        HTTP/1.1 is spoken to the upstream whatever the client speaks."""
        request = flow.request
        version = request.data.http_version
        exchange.is_http_1_0 = version == b"HTTP/1.0"
        exchange.close_after = exchange.is_http_1_0 or says_close(version, client_headers)
        request.data.http_version = b"HTTP/1.1"
        # ``http1`` responds with 100-continue itself, and takes the header away when it has.
        expectation = client_headers.get(b"expect")
        if expectation is not None and expectation.lower() != b"100-continue":
            request.headers.pop("expect", None)
        self._exchanges[flow.client_conn.id] = exchange

    def enter(self, client_id: str, phase: Phase) -> None:
        """Note what the exchange of a client connection waits for now, if it has one."""
        exchange = self._exchanges.get(client_id)
        if exchange is not None:
            exchange.enter(phase)

    def end(self, flow: http.HTTPFlow) -> Exchange | None:
        """Remove and return the exchange of a flow that is over, if it has one."""
        # In stock mitmdump a flow sits in a reference cycle: what it holds would stay until it is collected.
        flow.request.data.content = None
        exchange = self.remove(flow.client_conn.id)
        if exchange is not None:
            flow.request.stream = False
            if flow.response is not None:
                flow.response.stream = False
        return exchange

    def remove(self, client_id: str) -> Exchange | None:
        """Remove and return the exchange of a client connection, if it has one."""
        exchange = self._exchanges.pop(client_id, None)
        if exchange is not None:
            self._memory.release(client_id)
            self.web_slots.release(client_id)
        return exchange

    def begin_response(self, client_id: str, exchange: Exchange) -> None:
        """Note that the body of a request is no longer held, and that of its response may be."""
        self._memory.release(client_id)
        exchange.may_hold = partial(self._memory.hold, client_id)

    def abandon_all(self) -> None:
        """Let go of all exchanges as they stand. Their files in the spool stay unfinished, and the
        recorder makes entries of them once this process is gone."""
        for exchange in self._exchanges.values():
            exchange.capture = None
        self._exchanges.clear()
