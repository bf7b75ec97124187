"""How every process of ours logs: one line per record on standard error, with its name and time (UTC)."""

import atexit
import logging
import sys
import time

from runtime.terminal_output import Outlet


class _OutletHandler(logging.Handler):
    def __init__(self, outlet: Outlet) -> None:
        super().__init__()
        self._outlet = outlet

    def emit(self, record: logging.LogRecord) -> None:
        self._outlet.say(self.format(record))


def configure(process: str) -> None:
    """Warnings and worse of everybody. mitmproxy's own INFO lines can quote raw requests, with
    their credentials, so they must never be written."""
    outlet = Outlet(sys.stderr)
    atexit.register(outlet.close)
    handler = _OutletHandler(outlet)
    handler.setFormatter(make_formatter(process))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def configure_without_thread(process: str) -> None:
    """Configure logging in a process that forks: a fork would not have the thread that writes."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(make_formatter(process))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def make_formatter(process: str) -> logging.Formatter:
    formatter = logging.Formatter(
        f"%(asctime)s {process:8} %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%SZ"
    )
    formatter.converter = time.gmtime  # UTC, as everywhere
    return formatter
