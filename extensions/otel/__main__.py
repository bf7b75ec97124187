"""``python -m extensions.otel``: the process that exports finished calls to a collector.

It is a process of its own, so that neither the proxy nor the recorder ever waits for a collector, and
it has a lower priority. The service runs it unless ``TAXIMETER_OTEL`` is off."""

import logging
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from types import FrameType

from extensions.otel.collector import explain, find_collector, find_timeout_s, list_secrets
from extensions.otel.plugin import OTEL
from extensions.otel.positions import begin, open_positions
from runtime import logs, parent_watch, readiness
from runtime.installing import explain_missing
from runtime.settings import Settings, SettingsError
from runtime.trouble_log import TroubleLog
from store.following.follower import (
    Batch,
    BatchRefusedError,
    Follower,
    ReceiverAwayError,
)

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    from extensions.otel.noting_session import NotingSession
    from extensions.otel.spans import SpanMaker
except ImportError as error:  # an extra
    sys.exit(f"taximeter: {error}. {explain_missing('TAXIMETER_OTEL', 'otel')}")

logger = logging.getLogger(__name__)

# Of statuses that are worth another try, OTLP has four. The others here are about an address or a
# credential: they say nothing about a batch, and an operator may mend them.
MAY_PASS = frozenset({401, 403, 404, 407, 429, 502, 503, 504})
ROUND_S = 0.5
AGAIN_S = 1.0  # between signals of a deadline, where something swallows the exception
LONGEST_PAUSE_S = 30.0
NICENESS = 10


class _LastLine(logging.Handler):
    """Keeps the last line that OpenTelemetry logs, which says why an export failed."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class Sender:
    """Sends calls as spans, with OpenTelemetry's own exporter and environment variables."""

    def __init__(self, settings: Settings) -> None:
        self._spans = SpanMaker(settings.vendor, settings.upstream_url, version("taximeter"))
        self._session = NotingSession()
        self._secrets = list_secrets(os.environ)
        self._deadline_s = 2 * find_timeout_s(os.environ)
        self._is_closed = False
        self._log = _LastLine()
        library = logging.getLogger("opentelemetry")
        library.addHandler(self._log)
        # It logs each try, and headers that it cannot read with what is in them; ours says it once.
        library.propagate = False
        self._exporter = OTLPSpanExporter(session=self._session)
        if self._log.text:
            logger.warning("OpenTelemetry: %s", explain(self._log.text, self._secrets))

    def send(self, organization_id: str, batch: Batch) -> int:
        """Send calls and wait for the acknowledgement; return the number that the collector has left out.

        Raises ReceiverAwayError if a retry may succeed, BatchRefusedError if not."""
        self._log.text = ""
        self._session.forget()
        spans = [self._spans.make(organization_id, call, bodies) for call, bodies in batch]
        try:
            with deadline(self._deadline_s):
                result = self._exporter.export(spans)
        # Also what the library makes of a response that it did not expect.
        except Exception as error:
            raise ReceiverAwayError(explain(str(error), self._secrets)) from None
        if result is SpanExportResult.SUCCESS:
            return self._session.left_out
        reason = explain(self._log.text or "no reason was given", self._secrets)
        if self._session.is_final(MAY_PASS) and not self._is_closed:
            raise BatchRefusedError(reason)
        raise ReceiverAwayError(reason)

    def close(self) -> None:
        """End a current export."""
        self._is_closed = True
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def run(follower: Follower, stop: threading.Event) -> None:
    """Export calls until ``stop`` is set, with growing pauses while the collector is away."""
    trouble = TroubleLog(logger, "Calls cannot be exported and wait: %s")
    pause_s = ROUND_S
    while not stop.is_set():
        try:
            follower.run_round(stop.is_set)
        except (ReceiverAwayError, sqlite3.Error, OSError) as error:
            if not stop.is_set():
                trouble.report(str(error))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        else:
            trouble.clear()
            pause_s = ROUND_S
        stop.wait(pause_s)


def main() -> None:
    logs.configure("otel")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor orders the stop
    os.nice(NICENESS)
    try:
        settings = Settings.from_env()
        sender = Sender(settings)
    except SettingsError as error:
        sys.exit(f"taximeter: {error}")
    stop = threading.Event()

    def end(*_: int | FrameType | None) -> None:
        stop.set()
        sender.close()

    collector = find_collector(os.environ)
    begin(settings.data_dir, collector)
    with open_positions(settings.data_dir) as positions:
        signal.signal(signal.SIGTERM, end)
        parent_watch.watch(end)
        readiness.announce()
        follower = Follower(
            settings.data_dir,
            positions,
            collector,
            sender.send,
            with_bodies=settings.of(OTEL) == "bodies",
        )
        run(follower, stop)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after ``seconds``. Works in the main thread only."""
    is_over = False

    def give_up(_number: int, _frame: FrameType | None) -> None:
        if not is_over:
            raise TimeoutError("it did not respond in time")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        try:
            yield
        finally:
            is_over = True
    finally:  # also if the signal came before ``is_over`` was set
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    main()
