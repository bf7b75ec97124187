"""Log lines as JSON objects, one per line.

Each has ``time``, ``level``, ``process`` and ``message``; a logged exception is in ``exception``. They
are plain ASCII, so they cannot contain control characters for a terminal, or line breaks."""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from runtime import clock

type LogFormat = Literal["text", "json"]

# The supervisor reads lines of 64 KB. One character may take twelve bytes.
_MAX_CHARACTERS = 5_000
_CUT = "…"


def format_json_line(process: str, level: str, message: str, **fields: object) -> str:
    """Return a log line of a process as JSON. ``fields`` that are None are left out."""
    return _dump(clock.now(), process, level, message[:_MAX_CHARACTERS], fields)


def make_line_format(process: str, log_format: LogFormat) -> Callable[[str], str]:
    """Return a function that formats output lines of a process which are not warnings."""
    if log_format == "text":
        return str
    return lambda text: format_json_line(process, "info", text.strip("\n"))


def wrap_line(process: str, text: str) -> str:
    """Return a line of a process's standard error as JSON.

    A line that is JSON is unchanged. Any other becomes an error, since a process writes there directly
    only when it fails."""
    if text.startswith("{") and _is_object(text):
        return text
    return format_json_line(process, "error", text)


class JsonFormatter(logging.Formatter):
    """Formats log records as JSON objects."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {"logger": record.name}
        if record.exc_info:
            fields["exception"] = _cut_start(self.formatException(record.exc_info))
        return _dump(
            datetime.fromtimestamp(record.created, UTC),
            self._process,
            record.levelname.lower(),
            record.getMessage()[:_MAX_CHARACTERS],
            fields,
        )


def _cut_start(text: str) -> str:
    """Return the end of a long text, since the last lines of a traceback say what happened."""
    return text if len(text) <= _MAX_CHARACTERS else _CUT + text[-_MAX_CHARACTERS:]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _dump(
    instant: datetime, process: str, level: str, message: str, fields: dict[str, object]
) -> str:
    known = {name: value for name, value in fields.items() if value is not None}
    line = {
        "time": clock.format_ms(instant),
        "level": level,
        "process": process,
        "message": message,
        **known,
    }
    return json.dumps(line)
