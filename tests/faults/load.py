"""The load: calls at a steady rate, whatever becomes of those before."""

import select
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self

from tests.faults.oracle import Attempt, Call, is_numbered, number_of
from tests.faults.traffic import Plan, make_plan, make_script
from tests.rawclient import Cut, Headers, RawClient, request
from tests.upstream import PATIENCE_S, Gate, Script, SeenRequest, Upstream, wait_until

CLIENTS = 64
HOLD_FOR = 40  # so many later calls begin before a held response goes on
MOST_ATTEMPTS = 3
RETRY_S = 0.3
HEADERS: Headers = (
    ("Host", "taximeter.test"),
    ("Content-Type", "application/json"),
    ("User-Agent", "Anthropic/Python 0.75.0"),
    ("anthropic-version", "2023-06-01"),
    ("x-api-key", "sk-ant-dummy-0123456789abcdefghijklmnopqrstuvwxyz"),
)


type Address = tuple[str, int]


class Load:
    """Calls the endpoints in turn. ``spoil`` is set by a case whose fault is one of the upstream: it
    returns a script and the bytes of its body for some calls, and None for the others."""

    def __init__(
        self,
        find_address: Callable[[int], Address],
        upstream: Upstream,
        slugs: Sequence[str],
        rate: float,
        *,
        most_attempts: int = MOST_ATTEMPTS,
    ) -> None:
        """``find_address`` is asked, with its number, where each attempt of a call goes."""
        self._find_address = find_address
        self._most_attempts = most_attempts
        self._upstream = upstream
        self._slugs = slugs
        self._pause_s = 1 / rate
        self.spoil: Callable[[Plan], tuple[Script, bytes] | None] | None = None
        self.spoiled: dict[int, bytes] = {}
        self.calls: list[Call] = []
        self.begun = 0
        self._in_flight: set[int] = set()
        self._lock = threading.Lock()
        self._idle: dict[Address, deque[RawClient]] = defaultdict(deque)
        self._gates: dict[int, Gate] = {}
        self._may_go = threading.Event()
        self._is_waiting = False
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(CLIENTS, thread_name_prefix="client")
        self._ticker = threading.Thread(target=self._tick, name="load")
        upstream.choose = self._choose

    def __enter__(self) -> Self:
        self._may_go.set()
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._may_go.set()
        self._ticker.join()
        self._open_gates()
        self._pool.shutdown()
        self._close_idle()

    def wait_for(self, calls: int) -> None:
        """Wait until so many more calls have begun."""
        wanted = self.begun + calls
        wait_until(lambda: self.begun >= wanted, f"{calls} more calls", patience_s=PATIENCE_S)

    def catch_up(self) -> None:
        """Wait until all calls that have begun have ended: the crowd of those that had to wait is not
        the fault's."""
        begun = self.begun

        def have_ended() -> bool:
            with self._lock:
                return min(self._in_flight, default=begun) >= begun

        wait_until(have_ended, "the end of the calls that have begun", patience_s=PATIENCE_S)

    def pause(self) -> None:
        """Begin no further call, and wait until all have ended and no connection is open."""
        self._may_go.clear()
        wait_until(self._is_quiet, "the end of all calls", patience_s=PATIENCE_S)
        self._close_idle()

    def resume(self) -> None:
        """Forget all calls, and go on."""
        self.calls.clear()
        self.spoiled.clear()
        self._upstream.requests.clear()
        self._may_go.set()

    def _is_quiet(self) -> bool:
        self._open_gates()
        return not self._in_flight and self._is_waiting

    def _open_gates(self) -> None:
        for number in list(self._gates):
            self._gates.pop(number).open()

    def _close_idle(self) -> None:
        for clients in self._idle.values():
            while clients:
                clients.popleft().close()

    def _tick(self) -> None:
        next_s = time.monotonic()
        while not self._is_over.is_set():
            if not self._may_go.is_set():
                self._is_waiting = True
                self._may_go.wait()
                self._is_waiting = False
                next_s = time.monotonic()
                continue
            number = self.begun
            with self._lock:
                self._in_flight.add(number)
            self.begun += 1
            self._gates[number] = Gate()
            if gate := self._gates.pop(number - HOLD_FOR, None):
                gate.open()
            self._pool.submit(self._run, number)
            next_s = max(next_s + self._pause_s, time.monotonic() - 10 * self._pause_s)
            self._is_over.wait(next_s - time.monotonic())

    def _choose(self, seen: SeenRequest) -> Script | None:
        if not is_numbered(seen.target):
            return None
        plan = make_plan(number_of(seen.target))
        if self.spoil is not None and (chosen := self.spoil(plan)) is not None:
            script, self.spoiled[plan.number] = chosen
            return script
        gate = self._gates.get(plan.number)
        if gate is None:  # it was opened before: the client has tried again
            gate = Gate()
            gate.open()
        return make_script(plan, gate)

    def _run(self, number: int) -> None:
        plan, call = make_plan(number), Call(number)
        target = f"/proxy/{self._slugs[number % len(self._slugs)]}/v1/messages?n={number}"
        data = request("POST", target, HEADERS, plan.request)
        try:
            while True:
                attempt = Attempt(None, time.monotonic())
                call.attempts.append(attempt)
                with suppress(OSError, Cut):
                    self._exchange(plan, attempt, data)
                attempt.ended_s = time.monotonic()
                is_good = attempt.is_whole and attempt.status == plan.status
                may_try_again = plan.tries_again and len(call.attempts) < self._most_attempts
                if is_good or not may_try_again or self._is_over.wait(RETRY_S):
                    break
        finally:
            with self._lock:
                self.calls.append(call)
                self._in_flight.remove(number)

    def _exchange(self, plan: Plan, attempt: Attempt, data: bytes) -> None:
        """Make one attempt. Raises OSError, Cut."""
        address = self._find_address(plan.number)
        client = self._take_idle(address) if plan.keeps_connection else None
        client = client or RawClient(address, timeout_s=PATIENCE_S)
        is_kept = False
        try:
            attempt.port = client.socket.getsockname()[1]
            client.send(data)
            response = client.read_response_head()
            attempt.status = response.status
            for piece in client.iter_body(response):
                attempt.body += piece
            attempt.is_whole = True
            is_kept = plan.keeps_connection and response.header("connection") != "close"
        finally:
            if is_kept:
                self._idle[address].append(client)
            else:
                client.close()

    def _take_idle(self, address: Address) -> RawClient | None:
        """Return a connection to an address that is still open, or None."""
        with suppress(IndexError):
            while True:
                client = self._idle[address].pop()
                if not select.select([client.socket], [], [], 0)[0]:
                    return client
                client.close()
        return None
