"""SQL functions that one call can keep busy for minutes, which no time limit interrupts: nothing stops
SQLite within a step, and ``instr`` of two megabytes in another two compares each with each.

They are asked of a second SQLite, once it is clear that they take milliseconds.
"""

import re
import sqlite3
from collections.abc import Callable

_MAX_COMPARISONS = 2_000_000_000
_MAX_TRIMMED = 64
_LONG_FIELD = re.compile(r"%[^A-Za-z%]*(?:\*|\d{4})")
_ARGUMENTS = {
    "instr": 2,
    "replace": 3,
    "trim": 2,
    "ltrim": 2,
    "rtrim": 2,
    "printf": -1,
    "format": -1,
}

type Value = str | bytes | float | None


class TooSlowError(Exception):
    """Told as the reason why a function failed."""


class SlowFunctions:
    """For one connection. ``refusal`` is why a call was refused, until the next query."""

    def __init__(self, connection: sqlite3.Connection, max_bytes: int) -> None:
        self.refusal: str | None = None
        self._scratch = sqlite3.connect(":memory:", check_same_thread=False)
        self._scratch.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max_bytes)
        for name, count in _ARGUMENTS.items():
            if _is_known(self._scratch, name):
                connection.create_function(name, count, self._guard(name), deterministic=True)

    def close(self) -> None:
        self._scratch.close()

    def _guard(self, name: str) -> Callable[..., Value]:
        def call(*values: Value) -> Value:
            try:
                _check(name, values)
            except TooSlowError as error:
                self.refusal = str(error)
                raise
            places = ", ".join("?" * len(values))
            found: Value = self._scratch.execute(
                f"select {name}({places})",
                values,
            ).fetchone()[0]
            return found

        return call


def _is_known(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("select 1 from pragma_function_list where name = ?", (name,))
    return found.fetchone() is not None


def _check(name: str, values: tuple[Value, ...]) -> None:
    """Raises TooSlowError."""
    if name in ("printf", "format"):
        if values and _LONG_FIELD.search(str(values[0])):
            raise TooSlowError(f"{name} takes widths up to 999 here, and no *.")
        return
    text, wanted = _length(values[0]), _length(values[1])
    if name in ("instr", "replace"):
        if text * wanted > _MAX_COMPARISONS:
            raise TooSlowError(f"{name} would take too long with values as long as these.")
    elif wanted > _MAX_TRIMMED:
        raise TooSlowError(f"{name} takes up to {_MAX_TRIMMED} characters to remove here.")


def _length(value: Value) -> int:
    return len(value) if isinstance(value, str | bytes) else 20
