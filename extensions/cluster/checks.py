"""Checks of the fields of records on the server: each check returns the value, or raises RecordError.

Anybody with write access to the server may write anything there. A value that has passed its check is
one that a node of this program could have written; no other value is used, in particular not as a part
of a path."""

import math
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, Literal, TypeAliasType, get_args, get_origin

import orjson

from runtime import clock
from store.control.records import Id, Instant, Line

MOST_BYTES = 8 << 20
MOST_NUMBER = 1 << 53

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_GROUP = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}", re.ASCII)
_INSTANT = re.compile(r"[0-9T:Z.+-]{4,40}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

type Check = Callable[[Any], Any]


class RecordError(ValueError):
    """A record on the server cannot have been written by a node. The message says why."""


def parse_json(content: bytes) -> Any:
    """Return the value of a JSON text, whose size is bounded. Raises RecordError."""
    if len(content) > MOST_BYTES:
        raise RecordError(f"it has {len(content)} bytes")
    try:
        return orjson.loads(content)
    except ValueError as error:
        raise RecordError(f"it is not JSON: {error}") from error


def build[T](make: Callable[..., T], found: object, checks: Mapping[str, Check]) -> T:
    """Return ``make`` called with the checked fields of ``found``, a JSON object.

    Fields without a check, of a newer program, are left out. Raises RecordError."""
    if not isinstance(found, dict):
        raise RecordError("it is not an object")
    values = {}
    for name, check in checks.items():
        if name not in found:
            raise RecordError(f"it lacks {name}")
        try:
            values[name] = check(found[name])
        except RecordError as error:
            raise RecordError(f"{name}: {error}") from error
    return make(**values)


def _match(pattern: re.Pattern[str], what: str) -> Callable[[Any], str]:
    def check(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise RecordError(f"not {what}")
        return value

    return check


name = _match(_NAME, "the name of a node, an endpoint or an organisation")
group = _match(_GROUP, "the name of a copy")
address = _match(_ADDRESS, "HOST:PORT")


def identifier(value: object) -> str:
    """Return a UUID in its usual form. Raises RecordError."""
    try:
        if isinstance(value, str) and str(uuid.UUID(value)) == value:
            return value
    except ValueError:
        pass
    raise RecordError("not a UUID")


def instant(value: object) -> str:
    """Return an instant in ISO 8601. Raises RecordError."""
    try:
        if isinstance(value, str) and _INSTANT.fullmatch(value):
            clock.parse_instant(value if len(value) > 4 else f"{value}-01-01")
            return value
    except (ValueError, OverflowError):
        pass
    raise RecordError("not an instant")


def text(most: int) -> Callable[[Any], str]:
    """Return a check for one line of at most ``most`` characters, without control characters."""

    def check(value: object) -> str:
        if not isinstance(value, str) or len(value) > most or _CONTROL.search(value):
            raise RecordError(f"not a line of {most} characters at most")
        return value

    return check


def any_text(most: int) -> Callable[[Any], str]:
    """Return a check for text of at most ``most`` characters of any kind."""

    def check(value: object) -> str:
        if not isinstance(value, str) or len(value) > most:
            raise RecordError(f"not a text of {most} characters at most")
        return value

    return check


def integer(least: int, most: int = MOST_NUMBER) -> Callable[[Any], int]:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise RecordError(f"not a whole number from {least} to {most}")
        return value

    return check


def number(value: object) -> float:
    """Return a finite number that is not negative. Raises RecordError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError("not a number")
    if not math.isfinite(value) or not 0 <= value <= MOST_NUMBER:
        raise RecordError(f"not a number from 0 to {MOST_NUMBER}")
    return value


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise RecordError("neither true nor false")
    return value


def choice(*allowed: object) -> Check:
    def check(value: object) -> object:
        if isinstance(value, bool) or value not in allowed:
            raise RecordError(f"none of {', '.join(map(str, allowed))}")
        return value

    return check


def optional(check: Check) -> Check:
    """Return a check that also accepts None."""
    return lambda value: None if value is None else check(value)


def either(*allowed: Check) -> Check:
    """Return a check that accepts what one of these checks accepts."""

    def check(value: object) -> object:
        for each in allowed:
            with suppress(RecordError):
                return each(value)
        raise RecordError("nothing of what it may be")

    return check


def items(check: Check, most: int = 100_000) -> Callable[[Any], list[Any]]:
    """Return a check for a list of at most ``most`` values, each of which passes ``check``."""

    def check_all(value: object) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise RecordError(f"not a list of {most} values at most")
        return [check(each) for each in value]

    return check_all


_OF_TYPES: Mapping[object, Check] = {
    Id: name,
    Instant: instant,
    Line: text(100),
    str: any_text(1_000),
    bool: boolean,
    int: integer(0),
    float: number,
}


def find_check(of: Any, others: Mapping[object, Check] = {}) -> Check:
    """Return the check for values of a type. ``others`` are checks by type, used before the usual ones."""
    found = others.get(of) or _OF_TYPES.get(of)
    if found is not None:
        return found
    if isinstance(of, TypeAliasType):
        return find_check(of.__value__, others)
    if get_origin(of) is Literal:
        return choice(*get_args(of))
    kinds = [find_check(each, others) for each in get_args(of) if each is not type(None)]
    check = kinds[0] if len(kinds) == 1 else either(*kinds)
    return optional(check) if type(None) in get_args(of) else check


def find_checks(record: Any, **given: Check) -> dict[str, Check]:
    """Return the checks for the fields of a dataclass: those in ``given``, the others by type."""
    return {each.name: given.get(each.name) or find_check(each.type) for each in fields(record)}
