"""The exchanges that are being forwarded, by the id of their client connection.

A client connection carries one exchange at a time (HTTP/1 without pipelining), and hooks of
connections know its id."""

from functools import partial

from mitmproxy import http

from addon import headers
from addon.body_memory import BodyMemory
from addon.exchange import Exchange, Phase
from addon.holdings import WebSlots
from addon.http1.framing import says_close
from runtime.worker_board import WorkerBoard


class Exchanges:
    """Holds each exchange from the head of its request until its end.

    When one is removed, its memory for bodies and its slot at the web process are released."""

    def __init__(self, memory: BodyMemory, board: WorkerBoard) -> None:
        self._memory = memory
        self.web_slots = WebSlots(board)
        self._exchanges: dict[str, Exchange] = {}
        # Client connections with a request of which is not known yet whether it is forwarded.
        self.undecided: set[str] = set()

    def find(self, client_id: str) -> Exchange | None:
        """Return the exchange of a client connection, or None if it has none."""
        return self._exchanges.get(client_id)

    def is_awaited(self, client_id: object) -> bool:
        """Return whether a client connection has an exchange whose end draining waits for."""
        exchange = self._exchanges.get(client_id) if isinstance(client_id, str) else None
        return exchange is not None and not exchange.is_endless

    def find_all(self) -> list[tuple[str, Exchange]]:
        """Return all exchanges, each with the id of its client connection."""
        return list(self._exchanges.items())

    def begin(self, flow: http.HTTPFlow, exchange: Exchange, client_headers: headers.Index) -> None:
        """Add an exchange; ``client_headers`` are the request headers as received.

        The request to the upstream uses HTTP/1.1, whatever the client uses."""
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
        """Begin a phase of the exchange of a client connection, if it has one."""
        exchange = self._exchanges.get(client_id)
        if exchange is not None:
            exchange.enter(phase)

    def end(self, flow: http.HTTPFlow) -> Exchange | None:
        """Remove and return the exchange of a flow that has ended, or None if it has none."""
        # In stock mitmdump a flow sits in a reference cycle: what it holds would stay until it is collected.
        flow.request.data.content = None
        exchange = self.remove(flow.client_conn.id)
        if exchange is not None:
            flow.request.stream = False
            if flow.response is not None:
                flow.response.stream = False
        return exchange

    def remove(self, client_id: str) -> Exchange | None:
        """Remove and return the exchange of a client connection, or None if it has none."""
        exchange = self._exchanges.pop(client_id, None)
        if exchange is not None:
            self._memory.release(client_id)
            self.web_slots.release(client_id)
        return exchange

    def begin_response(self, client_id: str, exchange: Exchange) -> None:
        """Release the memory of the request body, and let the response be held."""
        self._memory.release(client_id)
        exchange.may_hold = partial(self._memory.hold, client_id)

    def abandon_all(self) -> None:
        """Abandon all exchanges unfinished.

        The recorder reads their spool files once this process has ended."""
        for exchange in self._exchanges.values():
            exchange.capture = None
        self._exchanges.clear()
