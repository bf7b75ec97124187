"""The filters of an overview, and the addresses of the lists of calls that figures are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, get_args
from urllib.parse import urlencode

from dashboard.addresses import CALLS
from dashboard.call_filters import MAX_CHARS, NONE, PERIOD, SINCE, TAG_PREFIX, UNTIL
from dashboard.overview.periods import Period
from metering.attribution import split_tag
from runtime.errors import InvalidInputError
from runtime.intervals import Interval
from store.traces.sums.overview_query import Query, format_hour
from store.traces.sums.rollup import OTHER

Name = Literal[
    "endpoint", "model", "client", "credential", "billing", "session", "agent", "user", "project"
]
# A tag is no group, since a call has several. Its value is the whole tag.
FilterName = Name | Literal["tag"]

NAMES: tuple[Name, ...] = get_args(Name)
FILTERS: tuple[FilterName, ...] = (*NAMES, "tag")
# What filters are called in addresses, as in those of lists of calls.
_ARGUMENTS: Mapping[FilterName, str] = {"user": "tag.user", "project": "tag.project"}
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Filters:
    """The values that calls must have, by name of the filter; "" selects calls without a value."""

    values: Mapping[FilterName, str] = field(default_factory=dict)

    def only(self, name: FilterName, value: str) -> "Filters":
        """Return these filters with ``value`` for ``name``, replacing another value of it."""
        return Filters({**self.values, name: value})

    def without(self, name: FilterName) -> "Filters":
        """Return these filters without the filter ``name``."""
        return Filters({key: value for key, value in self.values.items() if key != name})

    def as_arguments(self) -> Sequence[tuple[str, str]]:
        """Return the filters as names and values for the query of an address."""
        return [_write_argument(name, value) for name, value in self.values.items()]

    def query(self, interval: Interval, by: Name | None = None, *, hourly: bool = False) -> Query:
        """Return the query for the sums of an interval under these filters, grouped by ``by`` if given."""
        values = {str(name): value for name, value in self.values.items()}
        return Query(start=interval.start, end=interval.end, filters=values, by=by, hourly=hourly)


def choose[Choice: str](choices: Sequence[Choice], text: str, argument: str) -> Choice:
    """Return the choice that equals ``text``. Raises InvalidInputError that names ``argument``."""
    for each in choices:
        if each == text:
            return each
    raise InvalidInputError(f"{argument} must be one of {', '.join(choices)}", argument)


def parse_filters(arguments: Mapping[str, str]) -> Filters:
    """Return the filters in the arguments of an address. Raises InvalidInputError."""
    values: dict[FilterName, str] = {}
    for name in FILTERS:
        argument = argument_of(name)
        value = arguments.get(argument, "")
        if len(value) > MAX_CHARS:
            raise InvalidInputError(
                f"{argument} must have at most {MAX_CHARS} characters", argument
            )
        if value:
            values[name] = "" if value == NONE else value
    tag = _find_tag(arguments)
    return Filters(values if tag is None else values | {"tag": tag})


def argument_of(name: FilterName) -> str:
    """Return the name of a filter in addresses."""
    return _ARGUMENTS.get(name, name)


def _find_tag(arguments: Mapping[str, str]) -> str | None:
    """Return the tag ``key:value`` from an argument ``tag.key=value``, None if there is none.

    Raises InvalidInputError if it is too long."""
    for name, value in arguments.items():
        key = name.removeprefix(TAG_PREFIX).lower()
        if name.startswith(TAG_PREFIX) and key and value and name not in _ARGUMENTS.values():
            if len(name) + len(value) > MAX_CHARS:
                raise InvalidInputError(f"{name[:MAX_CHARS]} must be a tag", name[:MAX_CHARS])
            return f"{key}:{value.lower()}"
    return None


def _write_argument(name: FilterName, value: str) -> tuple[str, str]:
    key, of_key = split_tag(value) if name == "tag" else ("", "")
    return (f"{TAG_PREFIX}{key}", of_key) if of_key else (argument_of(name), value or NONE)


def calls_address(filters: Filters, period: Period) -> str | None:
    """Return the address of the list of a period's calls, None if a filter is "all other groups"."""
    return _write_address([(PERIOD, period.span)], filters)


def step_address(filters: Filters, step: Interval) -> str | None:
    """Return the address of the list of calls in some hours or days. None if a filter is "all other
    groups"."""
    if step.start.hour or step.end.hour:
        hours = [(SINCE, format_hour(step.start)), (UNTIL, format_hour(step.end))]
        return _write_address(hours, filters)
    days = f"{step.start.date()}..{(step.end - _DAY).date()}"
    return _write_address([(PERIOD, days)], filters)


def _write_address(time: Sequence[tuple[str, str]], filters: Filters) -> str | None:
    if OTHER in filters.values.values():
        return None
    return f"{CALLS}?{urlencode([*time, *filters.as_arguments()], errors='replace')}"
