"""The filters of an overview, and the addresses of the calls behind a mark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args
from urllib.parse import urlencode

import orjson

from metering.attribution import split_tag
from runtime.errors import InvalidInputError
from store.traces.sessions.unnamed_sessions import parse_first_id
from store.traces.sums.requested_models import find_requested
from store.traces.sums.rollup import OTHER, OVERAGE, SUBSCRIPTION

Name = Literal[
    "endpoint", "model", "client", "credential", "billing", "session", "agent", "user", "project"
]
# A tag is no group, since a call has several. Its value is the whole tag.
FilterName = Name | Literal["tag"]

NAMES: tuple[Name, ...] = get_args(Name)
FILTERS: tuple[FilterName, ...] = (*NAMES, "tag")
# What filters are called in addresses, as in those of lists of calls.
_ARGUMENTS: Mapping[FilterName, str] = {"user": "tag.user", "project": "tag.project"}
# The value for calls that name none; among agents that is the main one.
NONE = "(none)"
MAX_CHARS = 500
TAG_PREFIX = "tag."
_CALLS = "/traces/usage"
_COLUMNS: Mapping[FilterName, str] = {
    "endpoint": "slug",
    "model": "model",
    "client": "client__startswith",  # the list has clients with their versions
    "credential": "credential_hmac",
    "billing": "billing",
    "session": "session_id",
    "agent": "agent_id",
    "user": "attributed_user",
    "project": "project",
    "tag": "tags",
}


@dataclass(frozen=True, slots=True)
class Filters:
    """The values that calls have to have, by name of the filter; "" stands for calls that name none."""

    values: Mapping[FilterName, str] = field(default_factory=dict)

    def only(self, name: FilterName, value: str) -> "Filters":
        """Return these filters with one more."""
        return Filters({**self.values, name: value})

    def without(self, name: FilterName) -> "Filters":
        """Return the other filters."""
        return Filters({key: value for key, value in self.values.items() if key != name})

    def as_arguments(self) -> Sequence[tuple[str, str]]:
        """Return the arguments of an address."""
        return [_write_argument(name, value) for name, value in self.values.items()]


def parse_filters(arguments: Mapping[str, str]) -> Filters:
    """Return the filters of an address. Raises InvalidInputError."""
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
    """Return the name of a filter in an address."""
    return _ARGUMENTS.get(name, name)


def _find_tag(arguments: Mapping[str, str]) -> str | None:
    """Return the tag ``key:value`` of an argument ``tag.key=value``, None where there is none."""
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


def calls_address(filters: Filters, start: datetime, end: datetime) -> str | None:
    """Return the address of the list of calls in a time, None where no list has just these."""
    arguments = [("created_at__gte", _format(start)), ("created_at__lt", _format(end))]
    for name, value in filters.values.items():
        if value == OTHER:
            return None
        if name == "session" and (first_id := parse_first_id(value)) is not None:
            through = {"table": "unnamed_calls", "column": "first_id", "value": str(first_id)}
            arguments.append(("_through", orjson.dumps(through).decode()))
        elif name == "session" and not value:
            named = "id in (select usage_id from unnamed_calls)"
            arguments += [("session_id__isblank", "1"), ("_where", f"not {named}")]
        elif name == "tag" and value:
            arguments.append(("tags__arraycontains", value))
        elif name == "model" and (requested := find_requested(value)) is not None:
            arguments += [("model__isnull", "1"), ("request_model", requested)]
        elif not value:
            arguments.append((f"{_COLUMNS[name].partition('__')[0]}__isblank", "1"))
        elif name == "billing" and value == OVERAGE:
            arguments += [("billing", SUBSCRIPTION), ("overage", "1")]
        elif name == "billing" and value == SUBSCRIPTION:
            arguments += [("billing", SUBSCRIPTION), ("_where", "overage is not 1")]
        else:
            arguments.append((_COLUMNS[name], value))
    return f"{_CALLS}?{urlencode(arguments, errors='replace')}"


def _format(instant: datetime) -> str:
    """Return the shortest text that sorts with ``created_at`` as the instant does."""
    return instant.isoformat()[: 10 if instant.hour == 0 else 13]
