"""Checks of query arguments that Datasette parses without checking them.

For a number with 5,000 digits, JSON nested 10,000 deep or an invalid facet, Datasette fails with an
internal error. Here each is an error of the caller, with a message.
"""

import json
import re
from collections.abc import Callable, Iterable

MAX_DIGITS = 18  # what fits SQLite's integers whatever the digits are
MAX_JSON = 50_000  # characters; a list of some thousand ids
_MAX_SHOWN = 200
_COMPARISON = re.compile(r".+__(?:gt|gte|lt|lte)", re.DOTALL)
_LIST = re.compile(r".+__(?:in|notin)", re.DOTALL)
_FACET = re.compile(r"_facet(?!_size$)(?:_.*)?", re.DOTALL)
_NUMBER = re.compile(rf"[0-9]{{1,{MAX_DIGITS}}}")
_LONG_NUMBER = re.compile(rf"[-+]?\d{{{MAX_DIGITS + 1},}}")

type Check = tuple[Callable[[str], bool], str]


def find_error(path: str, arguments: Iterable[tuple[str, str]]) -> str | None:
    """Return the error in the path or the first invalid argument as a sentence; None if all are valid."""
    for part in re.split("[/,.]", path):
        if _LONG_NUMBER.fullmatch(part):
            return f"A number in the address has more than {MAX_DIGITS} digits: {shorten(part)}"
    for name, value in arguments:
        is_good, wanted = _find_check(name)
        if not is_good(value):
            return f"{name[:_MAX_SHOWN]} has to be {wanted}; it is {shorten(value)}."
    return None


def is_number(value: str) -> bool:
    """Return whether a text is a whole number that SQLite can hold."""
    return _NUMBER.fullmatch(value) is not None


def shorten(value: str) -> str:
    """Return the beginning of a text in quotes, for messages that quote input."""
    return repr(value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…")


def _find_check(name: str) -> Check:
    if name in _CHECKS:
        return _CHECKS[name]
    if _FACET.fullmatch(name):
        return _is_facet, "the name of a column"
    if _COMPARISON.fullmatch(name):
        return _is_comparable, f"a text, or a number of at most {MAX_DIGITS} digits"
    if _LIST.fullmatch(name):
        return _is_list, "values with commas between them, or a flat JSON list"
    return _anything, ""


def _anything(_value: str) -> bool:
    return True


def _is_size(value: str) -> bool:
    """Return whether a size is so short that Datasette can check it itself."""
    return len(value) <= MAX_DIGITS


def _is_place(value: str) -> bool:
    return not any(map(_LONG_NUMBER.fullmatch, value.split(",")))


def _is_optional_number(value: str) -> bool:
    return not value or is_number(value)


def _is_comparable(value: str) -> bool:
    """Return whether a value is a text, or a number that SQLite can hold.

    Datasette converts all characters that are digits in Unicode."""
    return not value.isdigit() or is_number(value)


def _is_list(value: str) -> bool:
    if not value.startswith("["):
        return True
    parsed = _parse(value)
    return isinstance(parsed, list) and all(map(_is_plain, parsed))


def _is_facet(value: str) -> bool:
    if not value.startswith("{"):
        return True
    parsed = _parse(value)
    if not isinstance(parsed, dict):
        return False
    return any(isinstance(parsed.get(name), str) for name in ("column", "simple"))


def _is_through(value: str) -> bool:
    parsed = _parse(value)
    return (
        isinstance(parsed, dict)
        and isinstance(parsed.get("table"), str)
        and isinstance(parsed.get("column"), str)
        and "value" in parsed
        and _is_plain(parsed["value"])
    )


def _parse(text: str) -> object:
    """Parse JSON; None if it is invalid or nested too deeply."""
    try:
        return json.loads(text) if len(text) <= MAX_JSON else None
    except (ValueError, RecursionError):
        return None


def _is_plain(value: object) -> bool:
    """Return whether a value can be a parameter of SQLite."""
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return value is None or isinstance(value, str | float)


_CHECKS: dict[str, Check] = {
    "_facet_size": (_is_size, "a number, or max"),
    "_next": (_is_place, "what the link to the next page had"),
    "_size": (_is_size, "a number, or max"),
    "_through": (_is_through, "a JSON object with table, column and value"),
    "_timelimit": (_is_optional_number, "a number of milliseconds"),
    "_ttl": (_is_optional_number, "a number of seconds"),
}
