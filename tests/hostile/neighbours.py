"""Other clients of a service that is attacked: their calls, and how long each took."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from tests.live.service import REQUEST_HEADERS, Service
from tests.rawclient import Cut, RawClient, request
from tests.upstream import PATIENCE_S, Script, SeenRequest, Upstream, answer, message_json

MARK = ("x-app", "neighbour")
_numbers = itertools.count(1)
ENDPOINTS = 20  # each may have 300 calls a minute
PAUSE_S = 0.005
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


class _WithoutNeighbours(list[SeenRequest]):
    def append(self, seen: SeenRequest) -> None:
        if MARK not in seen.headers:
            super().append(seen)


class AttackedUpstream(Upstream):
    """An upstream that responds to neighbours as ever, and does not list them among what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = _WithoutNeighbours()

    def _script_for(self, request: SeenRequest) -> Script:
        return (
            answer(200, message_json()) if MARK in request.headers else super()._script_for(request)
        )


@dataclass(slots=True, kw_only=True)
class Waits:
    """The time that neighbours waited for each response, in ms, and how many got none or another one."""

    times_ms: list[float] = field(default_factory=list)
    pages_ms: list[float] = field(default_factory=list)  # where somebody visits pages, too
    failed: int = 0
    peak_rss_mb: float = 0.0


def find_percentile(times_ms: Sequence[float], percent: float) -> float:
    """Return the time that so many of a hundred took at most, 0 of none."""
    ordered = sorted(times_ms) or [0.0]
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class Neighbours:
    """Calls on kept and on new connections, one after the other, while the block runs."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.slugs = [f"neighbour-{next(_numbers)}" for _ in range(ENDPOINTS)]
        for slug in self.slugs:
            service.create_endpoint(slug)
        self.answered: dict[str, str] = {}  # by the body of the request: the case
        self.waits = Waits()
        self._case = ""
        self._numbers = itertools.count()
        self._over = threading.Event()
        self._begun = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, case: str) -> None:
        """Begin to call, with new figures, and return once there is a first response."""
        self._case = case
        self.waits = Waits()
        self._over.clear()
        self._begun.clear()
        self._thread = threading.Thread(target=self._run, name="neighbours")
        self._thread.start()
        self._begun.wait(PATIENCE_S)

    def stop(self) -> Waits:
        """Call no more; return the figures."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        return self.waits

    def _run(self) -> None:
        proxy = psutil.Process(self.service.pids()["proxy"])
        kept: RawClient | None = None
        while not self._over.wait(PAUSE_S):
            self.waits.peak_rss_mb = max(self.waits.peak_rss_mb, proxy.memory_info().rss / 1e6)
            number = next(self._numbers)
            body = f'{{"neighbour":{number}}}'
            slug = self.slugs[number % ENDPOINTS]
            headers = [*REQUEST_HEADERS, MARK, ("x-forwarded-for", "203.0.113.77")]
            data = request("POST", f"/proxy/{slug}/v1/messages", headers, body.encode())
            is_new = kept is None
            began_s = time.monotonic()
            try:
                kept = kept or self.service.connect()
                status = kept.exchange(data).status
            except (Cut, OSError):
                status, kept = 0, None
                if not is_new:
                    continue  # it was idle and gave way; clients send again on a new connection
            self._note(status, began_s)
            if status == 200:
                self.answered[body] = self._case
            began_s = time.monotonic()
            status = 0
            with suppress(Cut, OSError), self.service.connect() as client:
                status = client.exchange(LIVEZ).status
            self._note(status, began_s)
            self._begun.set()
        if kept is not None:
            kept.close()

    def _note(self, status: int, began_s: float) -> None:
        self.waits.times_ms.append((time.monotonic() - began_s) * 1000)
        if status != 200:
            self.waits.failed += 1

    def find_lost(self) -> tuple[list[str], list[str]]:
        """Return the calls that had their response and are not recorded, with their cases, and those that
        are recorded twice."""
        rows = self.service.settled_rows("neighbour-%")
        bodies = Counter(row["request_body"] for row in rows if row["slug"] in self.slugs)
        lost = [f"{body} of {case}" for body, case in self.answered.items() if body not in bodies]
        return lost, [str(body) for body, count in bodies.items() if count > 1]
