"""``python -m recorder``: rounds of recording until a signal to stop, then the rest of the spool."""

from runtime import loading

# isort: split

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from itertools import chain
from types import FrameType

from metering.entry import UsageLogEntry
from recorder.alerts import AlertWatch
from recorder.annotations import AnnotationWork
from recorder.background import BackgroundWork
from recorder.budgets import BudgetWatch
from recorder.calls_in_flight import CallsInFlight
from recorder.disk import DiskRoom
from recorder.imports import Imports
from recorder.ingest import Ingester, Round
from recorder.open_databases import OpenDatabases
from recorder.removals import Removals
from recorder.savings import SavingsFinder
from recorder.text_indexing import TextIndexing
from recorder.timing_groups import TimingGroups
from runtime import extensions, logs, parent_watch, readiness
from runtime.heartbeat import Heartbeat
from runtime.locks import LockHeldError, ProcessLock
from runtime.settings import Settings, SettingsError
from runtime.terminal_output import LineWriter
from runtime.trouble_log import TroubleLog
from store.erasure_work import LocalErasureWork
from store.price_file import LivePrices
from store.spool import reader
from store.traces.calls.call_line import LINE_FORMATS

loading.finish()

logger = logging.getLogger(__name__)

# A batch costs as much as two more calls would, so it is given time to grow; with what a busy round takes
# itself, an entry is visible within 0.1 s.
ROUND_S = 0.08
BUSY_FILL_S = 1.0  # between two steps of the work in the background while calls wait
BEAT_S = 1.0
FAILED_ROUND_S = 0.5
LAST_ROUNDS_S = 2.5
# The objects of a batch stay until its end, and none of them is garbage. By Python's own threshold they were
# looked through several times in each batch, for an eighth of the recorder's processor time.
OBJECTS_OF_A_BATCH = 100_000
IMPAIRED = "RECORDING IS IMPAIRED: %s. Calls wait in the spool."


class Recorder:
    """A process that records in rounds, and writes the heartbeat."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prices = LivePrices(settings.prices)
        self._lines = LineWriter(sys.stdout)
        self._format_entry = LINE_FORMATS[settings.log_format]
        self._disk = DiskRoom(settings.data_dir, settings.disk_reserve)
        self._ingester = Ingester(
            settings.data_dir,
            settings.spool_path,
            self._prices,
            self._disk,
            time.monotonic,
            self._print_lines,
            self._housekeep,
            make_work=self._make_work,
        )
        self._budgets = BudgetWatch(
            settings.data_dir,
            settings.control_path,
            CallsInFlight(settings.proxy_spool_path, self._prices),
            time.monotonic,
            file_name=settings.node.budgets,
        )
        self._alerts = AlertWatch(settings.data_dir, settings.control_path, time.monotonic)
        self._waiting = 0
        self._round_trouble = TroubleLog(logger, IMPAIRED)
        self._beat_trouble = TroubleLog(logger, IMPAIRED)
        self._stop = threading.Event()
        self._is_supervised = parent_watch.inherited_fd() is not None
        self._last_beat_s = 0.0
        self._last_fill_s = 0.0

    def _make_work(self, databases: OpenDatabases) -> list[BackgroundWork]:
        settings, clock_s = self._settings, time.monotonic
        hooks = extensions.call()
        added = hooks.recorder_work(settings=settings, databases=databases, clock_s=clock_s)
        erasures = hooks.erasure_work(settings=settings) or LocalErasureWork(settings.spool_path)
        work: list[BackgroundWork] = [
            *chain(*added),
            *([TextIndexing(databases, clock_s)] if settings.search_index else []),
            SavingsFinder(databases, self._prices, clock_s),
            TimingGroups(databases, clock_s),
            Removals(settings.control_path, databases, clock_s, erasures),
        ]

        def begin(organization_id: str) -> None:
            for each in work:
                each.begin(organization_id)

        return [
            AnnotationWork(settings.data_dir, settings.control_path, databases, clock_s),
            Imports(settings.data_dir, databases, clock_s, begin),
            *work,
        ]

    def stop(self, *_: int | FrameType | None) -> None:
        """Record the waiting calls, then end.

        Under a supervisor this includes calls that proxies still finish, since a signal to the whole
        process group arrives here before they are done."""
        self._stop.set()

    def take_lock(self) -> ProcessLock | None:
        """Take the lock of the data directory for this recorder; None if it was told to stop meanwhile.

        Under a supervisor, wait for a recorder of an earlier service that still works. Raises
        LockHeldError, OSError."""
        path = self._settings.data_dir / "recorder.lock"
        is_waiting = False
        while not self._stop.is_set():
            try:
                return ProcessLock(path)
            except LockHeldError as error:
                if not self._is_supervised:
                    raise
                if not is_waiting:
                    is_waiting = True
                    logger.warning(
                        "another recorder (process %s) is still at work here; this one waits",
                        error.pid,
                    )
                    readiness.announce()  # that it has to wait is no failure of the start
            self._stop.wait(ROUND_S)
        return None

    def run(self) -> None:
        """Record until told to stop, and then the rest of the spool."""
        self._housekeep()
        self._ingester.update_databases()
        while not self._stop.is_set():
            result = self._round()
            if not result.has_more:
                self._rest()
            elif time.monotonic() - self._last_fill_s >= BUSY_FILL_S:
                self._fill()  # a recorder that never rests would never get to it
        patience_s = LAST_ROUNDS_S + (self._settings.drain_seconds if self._is_supervised else 0)
        deadline_s = time.monotonic() + patience_s
        while self._may_come_more(self._round()) and time.monotonic() < deadline_s:
            time.sleep(ROUND_S)
        self._ingester.close()
        self._budgets.close()
        self._alerts.close()
        self._disk.close()
        self._lines.close()

    def _rest(self) -> None:
        """Wait for the next round, and use some of that time for background work."""
        ends_at_s = time.monotonic() + ROUND_S
        self._fill()
        self._stop.wait(max(0.0, ends_at_s - time.monotonic()))

    def _fill(self) -> None:
        self._alerts.look()
        self._ingester.work_in_background()
        self._last_fill_s = time.monotonic()

    def _round(self) -> Round:
        try:
            result = self._ingester.run_round()
        except Exception as error:  # a folder we may not read, say: it may be better next time
            self._round_trouble.report(f"a round failed: {error!r}")
            time.sleep(FAILED_ROUND_S)
            result = Round(waiting=self._waiting)
        else:
            self._round_trouble.clear()
        self._waiting = result.waiting
        self._housekeep()
        return result

    def _print_lines(self, entries: Sequence[UsageLogEntry]) -> None:
        self._lines.write_line("\n".join(map(self._format_entry, entries)))

    def _may_come_more(self, last: Round) -> bool:
        if last.handled > 0:
            return True
        return self._is_supervised and reader.has_live_runs(self._settings.spool_path)

    def _housekeep(self) -> None:
        self._budgets.look()
        now_s = time.monotonic()
        if now_s - self._last_beat_s < BEAT_S:
            return
        self._last_beat_s = now_s
        self._prices.refresh()
        beat = Heartbeat(
            pid=os.getpid(),
            beat_s=now_s,
            waiting=self._waiting,
            stuck_organizations=self._ingester.stuck_organizations,
            unreadable=reader.count_unreadable(self._settings.spool_path),
        )
        try:
            self._disk.refill()  # first: on a full disk the heartbeat takes its room
            self._disk.retry(lambda: beat.write(self._settings.data_dir))
        except OSError as error:
            self._beat_trouble.report(f"the data directory cannot be written: {error.strerror}")
        else:
            self._beat_trouble.clear()


def main() -> None:
    logs.configure("recorder")
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a Ctrl-C reaches the supervisor, which orders the stop
    try:
        settings = Settings.from_env()
        recorder = Recorder(settings)
    except SettingsError as error:
        sys.exit(f"taximeter: {error}")
    signal.signal(signal.SIGTERM, recorder.stop)
    parent_watch.watch(recorder.stop)
    try:
        lock = recorder.take_lock()
    except LockHeldError as error:
        sys.exit(f"taximeter: another recorder (process {error.pid}) works on this data directory")
    except OSError as error:
        sys.exit(f"taximeter: {error.filename}: {error.strerror}")
    if lock is None:
        return
    # Before the first round: an exchange that ends the process must not keep the service from starting.
    readiness.announce()
    gc.set_threshold(OBJECTS_OF_A_BATCH)
    recorder.run()
    lock.release()


if __name__ == "__main__":
    main()
