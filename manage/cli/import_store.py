"""Storing calls that are imported: here, or by the recorder that runs."""

import time
from contextlib import suppress
from pathlib import Path

from manage.cli.console import BackendError
from runtime import clock
from runtime.files import replace_private
from runtime.locks import LockHeldError, ProcessLock
from store import call_imports
from store.traces import steps
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path

POLL_S = 0.05
PATIENCE_S = 120.0


class ImportStore:
    """Stores imported calls: in the database if this process gets the recorder's lock, else by the
    recorder."""

    def __init__(self, data_dir: Path, organization_id: str) -> None:
        self._data_dir = data_dir
        self._path = trace_path(data_dir, organization_id)
        self._folder = call_imports.find_folder(data_dir, organization_id)
        self._lock: ProcessLock | None = None
        self._traces: TraceDatabase | None = None

    def store(self, lines: list[bytes]) -> None:
        """Store calls, given as lines of an export. Raises BackendError, sqlite3.Error, OSError."""
        if self._has_lock():
            self._store_here(lines)
            return
        for each in (self._folder.parent, self._folder):
            each.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{clock.new_id()}{call_imports.SUFFIX}"
        replace_private(path, b"\n".join(lines))
        ends_at_s = time.monotonic() + PATIENCE_S
        while path.exists():
            if self._has_lock():  # the recorder has ended
                path.unlink(missing_ok=True)
                self._store_here(lines)
                return
            if time.monotonic() > ends_at_s:
                raise BackendError(
                    "the recorder does not store these calls, which it tries again: `taximeter doctor` and"
                    " its log say why"
                )
            time.sleep(POLL_S)
        if path.with_suffix(call_imports.REFUSED).exists():
            raise BackendError("the recorder is of another version: restart the service")

    def close(self) -> None:
        with suppress(OSError):  # there is none, or calls still wait in it
            self._folder.rmdir()
        if self._traces is not None:
            self._traces.close()
        if self._lock is not None:
            self._lock.release()

    def _has_lock(self) -> bool:
        if self._lock is None:
            with suppress(LockHeldError):
                self._lock = ProcessLock(self._data_dir / "recorder.lock")
        return self._lock is not None

    def _store_here(self, lines: list[bytes]) -> None:
        if self._traces is None:
            self._traces = TraceDatabase(self._path)
        with steps.patient(self._traces.connection):
            call_imports.store_lines(self._traces, lines)
