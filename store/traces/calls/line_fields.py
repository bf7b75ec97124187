"""Reading of fields of a line of an export, checked against the types of a dataclass."""

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAliasType, Union, get_args, get_origin, get_type_hints

from runtime import clock
from store.traces.calls import costs
from store.traces.calls.reader import Row

_MAX_INTEGER = 2**63 - 1


class LineError(ValueError):
    """A line that no export writes. The message says what is wrong with it."""


def read_fields(kind: Any, row: Row) -> dict[str, Any]:
    """Return the values of a row for all fields of the dataclass ``kind``, by name. Raises LineError."""
    return {name: read_field(name, row, each) for name, each in list_fields(kind).items()}


@cache
def list_fields(kind: Any) -> Mapping[str, Any]:
    """Return the fields of a dataclass with their types."""
    return get_type_hints(kind)


def read_field(name: str, row: Row, kind: Any) -> Any:
    """Return the value ``name`` of a row, converted to the type ``kind``. A missing column is None.

    Raises LineError if the value is of another type."""
    value = row.get(name)
    if not _accepts(kind, value):
        raise LineError(f"its {name} is not what an export writes")
    if value is None:
        return None
    if kind in (bool, bool | None):
        return bool(value)
    return costs.from_real(float(value)) if kind == (Decimal | None) else value


def is_instant(text: str) -> bool:
    """Return whether a text is an instant as exports write it."""
    try:
        return clock.format_ms(clock.parse_instant(text)) == text
    except ValueError:
        return False


def _accepts(kind: Any, value: object) -> bool:
    return any(_is_of(each, value) for each in _list_alternatives(kind))


@cache
def _list_alternatives(kind: Any) -> tuple[Any, ...]:
    """Return the types that ``kind`` is a union of; the values of a Literal are one inner tuple.

    Asking ``typing`` for each value of each line would take longer than storing the lines."""
    if isinstance(kind, TypeAliasType):
        return _list_alternatives(kind.__value__)
    if get_origin(kind) is Literal:
        return (get_args(kind),)
    if get_origin(kind) in (Union, UnionType):
        return tuple(each for part in get_args(kind) for each in _list_alternatives(part))
    return (NoneType if kind is None else kind,)


def _is_of(kind: Any, value: object) -> bool:
    if isinstance(kind, tuple):
        return value in kind
    if kind is bool:
        return value in (0, 1)
    if kind in (float, Decimal):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_INTEGER
    return isinstance(value, kind)
