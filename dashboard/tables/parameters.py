"""Parameters of canned queries, as ``datasette-metadata.json`` declares them.

SQL takes ``days=abc`` for 0 and says nothing. So the web process checks what the metadata declare, and
fills in defaults, which the page then shows. Plain Datasette ignores the declarations; the SQL has the
same defaults for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

MAX_DIGITS = 18
_MAX_SHOWN = 100


class InvalidParameterError(ValueError):
    """A parameter is not what the metadata declare; the message says what it has to be."""


def complete(
    declared: Mapping[str, Mapping[str, Any]], given: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the arguments of a request with the defaults of those that are missing or blank.

    Raises InvalidParameterError."""
    kept = [(name, value) for name, value in given if name not in declared or value.strip()]
    for name, value in kept:
        if name in declared:
            check(name, declared[name], value)
    present = {name for name, _ in kept}
    defaults = [
        (name, str(about["default"]))
        for name, about in declared.items()
        if name not in present and "default" in about
    ]
    return kept + defaults


def check(name: str, about: Mapping[str, Any], value: str) -> None:
    """Compare a value with its declaration. Raises InvalidParameterError."""
    if about["type"] == "integer" and not _is_integer(value, about):
        least, most = about["minimum"], about["maximum"]
        wanted = f"a whole number from {least:,} to {most:,}"
    elif about["type"] == "choice" and value not in about["choices"]:
        wanted = " or ".join(about["choices"])
    else:
        return
    shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
    raise InvalidParameterError(f"{name} has to be {wanted}; it is {shown!r}.")


def _is_integer(value: str, about: Mapping[str, Any]) -> bool:
    if not (value.isascii() and value.isdecimal() and len(value) <= MAX_DIGITS):
        return False
    return bool(about["minimum"] <= int(value) <= about["maximum"])
