"""Logging of all processes: one line per record on standard error, with process name and time (UTC).

``TAXIMETER_LOG_FORMAT`` makes the lines JSON objects. It is read here from the environment: logging is
configured before the settings are checked, so that an error in them can be logged."""

import atexit
import logging
import os
import sys
import time

from runtime.json_lines import JsonFormatter
from runtime.terminal_output import LineWriter

FORMAT_VARIABLE = "TAXIMETER_LOG_FORMAT"


class _LineHandler(logging.Handler):
    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        self._writer.write_line(self.format(record))


def configure(process: str) -> None:
    """Log warnings and errors of all libraries.

    mitmproxy's own INFO lines can quote raw requests, with their credentials, so they must never be
    written."""
    writer = LineWriter(sys.stderr)
    atexit.register(writer.close)
    handler = _LineHandler(writer)
    handler.setFormatter(make_formatter(process))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def configure_without_thread(process: str) -> None:
    """Configure logging in a process that forks: a forked process would lack the thread that writes."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(make_formatter(process))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def make_formatter(process: str) -> logging.Formatter:
    if os.environ.get(FORMAT_VARIABLE, "").strip() == "json":
        return JsonFormatter(process)
    formatter = logging.Formatter(
        f"%(asctime)s {process:8} %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%SZ"
    )
    formatter.converter = time.gmtime  # UTC, as everywhere
    return formatter
