"""The pool of query processes, each forked from this one (``python -m dashboard.queries``).

This process has loaded all code and holds no thread, no database and no secret. So a fork of it is ready
within milliseconds and shares nearly all memory with the others, which makes it cheap to kill one. It
knows the folder of the traces and the folder of the sockets, and nothing else. A number of processes are
always ready. If one still sends a response after a while, it reports this on its pipe, and another is
started in its place, up to a limit. A pipe that is closed means that its process has ended. The folder
of the sockets outlives the pool, since the next pool uses it too. It is removed when the supervisor is
gone.
"""

from runtime import loading

# isort: split

import argparse
import gc
import logging
import os
import selectors
import shutil
import signal
import stat
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from dashboard.queries import isolation, process
from dashboard.queries.page_renderer import load_pages
from dashboard.queries.protocol import MAX_READING, SOCKET_SUFFIX
from dashboard.tables import datasette_patches
from dashboard.tables.trace_browser import TraceBrowser
from runtime import logs, parent_watch, readiness

loading.finish()

PAUSE_S = 0.5  # after one that could not even start

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Query:
    """One query process. ``is_reading``: it only sends a response, and another was started in its place."""

    pid: int
    is_ready: bool = False
    is_reading: bool = False


class QueryPool:
    """The pool, which keeps ``count`` query processes ready."""

    def __init__(self, traces: Path, sockets: Path, count: int) -> None:
        self._traces = traces
        self._sockets = sockets
        self._count = count
        self._selector = selectors.DefaultSelector()
        self._alive_read, self._alive_write = os.pipe()
        self._stop_read, self._stop_write = os.pipe()
        self._parent_fd = parent_watch.inherited_fd()
        self._has_begun = False
        self._is_refused = False
        self._failures = 0

    def run(self) -> None:
        """Keep the query processes running until ``stop`` is called or the supervisor is gone."""
        prepare_folder(self._sockets)
        self._selector.register(self._stop_read, selectors.EVENT_READ)
        if self._parent_fd is not None:
            self._selector.register(self._parent_fd, selectors.EVENT_READ)
        try:
            while True:
                is_full = self._fill()
                events = self._selector.select(None if is_full else PAUSE_S)
                ending = {key.fd for key, _ in events if key.data is None}
                if self._stop_read in ending:
                    return
                if ending:
                    shutil.rmtree(self._sockets, ignore_errors=True)
                    return
                failed = [key for key, _ in events if not self._read_status(key.fd, key.data)]
                if failed:
                    time.sleep(PAUSE_S)  # once, however many they are: people wait for others
        finally:
            for query in self._queries():
                self._forget_socket(query)
                with suppress(ProcessLookupError):
                    os.kill(query.pid, signal.SIGKILL)

    def stop(self, _signal: int, _frame: FrameType | None) -> None:
        """Stop the pool; this is a signal handler. It raises nothing: an error within a hook of ``fork`` is
        lost."""
        os.write(self._stop_write, b"x")

    def _queries(self) -> list[_Query]:
        return [key.data for key in self._selector.get_map().values() if key.data is not None]

    def _fill(self) -> bool:
        """Start the missing processes. Return False if the system cannot start one now."""
        queries = self._queries()
        reading = sum(query.is_reading for query in queries)
        missing = self._count - (len(queries) - reading)
        room = self._count + MAX_READING - len(queries)
        for _ in range(min(missing, room)):
            try:
                self._start()
            except OSError as error:  # those that are there go on
                if not self._is_refused:
                    logger.warning("no query process can be started now: %s", error.strerror)
                self._is_refused = True
                return False
            self._is_refused = False
        return True

    def _start(self) -> None:
        read_fd, write_fd = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(read_fd)
            os.close(write_fd)
            raise
        if pid == 0:
            self._become_query(write_fd)
        os.close(write_fd)
        self._selector.register(read_fd, selectors.EVENT_READ, _Query(pid=pid))

    def _become_query(self, pool_fd: int) -> None:
        """Run as a query process, in the child after ``fork``; exit instead of returning."""
        status = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for key in list(self._selector.get_map().values()):
                os.close(key.fd)
            self._selector.close()
            os.close(self._alive_write)
            os.close(self._stop_write)
            isolation.limit_resources()
            process.run(self._traces, self._sockets, pool_fd, self._alive_read)
            status = 0
        except Exception as error:
            print(f"a query process failed: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    def _read_status(self, fd: int, query: _Query) -> bool:
        """Record what a process reports. Return False if it ended before it was ready."""
        reported = os.read(fd, 16)
        if process.READY in reported:
            query.is_ready = True
            if not self._has_begun:
                self._has_begun = True
                readiness.announce()
        if process.READING in reported:
            query.is_reading = True
            self._forget_socket(query)
        if not reported:
            self._selector.unregister(fd)
            os.close(fd)
            self._forget_socket(query)  # before the pid can be another's: see Processes.discard
            _, status = os.waitpid(query.pid, 0)
            if not query.is_ready:
                self._note_failure(os.waitstatus_to_exitcode(status))
        return query.is_ready or bool(reported)

    def _note_failure(self, status: int) -> None:
        """Count a failed start. Raises SystemExit if no process has ever started in ``count`` attempts."""
        self._failures += 1
        if not self._has_begun and self._failures >= self._count:
            sys.exit(f"No query process could start; the last ended with exit status {status}.")

    def _forget_socket(self, query: _Query) -> None:
        for suffix in (SOCKET_SUFFIX, ".new"):
            (self._sockets / f"{query.pid}{suffix}").unlink(missing_ok=True)


def prepare_folder(folder: Path) -> None:
    """Create the folder of the sockets, or empty the one that an earlier pool left.

    Raises SystemExit if it belongs to another user or others may use it, since its parent may be open to
    all."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        sys.exit(f"{folder} is not a private folder of this user. Remove it, and start again.")
    for path in folder.iterdir():
        path.unlink(missing_ok=True)


def main() -> None:
    """Parse the command line and run the pool of query processes."""
    parser = argparse.ArgumentParser(prog="python -m dashboard.queries", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the traces")
    parser.add_argument("--sockets", type=Path, required=True, help="a private folder")
    parser.add_argument("--count", type=int, required=True, help="how many are always ready")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pool = QueryPool(arguments.traces, arguments.sockets, arguments.count)
    signal.signal(signal.SIGTERM, pool.stop)
    logs.configure_without_thread("queries")
    datasette_patches.report_changes()
    TraceBrowser.load_templates()
    load_pages()
    gc.collect()
    gc.freeze()  # so that collecting in one process does not copy the pages of all
    pool.run()


if __name__ == "__main__":
    main()
