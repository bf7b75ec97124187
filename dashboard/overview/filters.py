"""The filters of an overview, and the addresses of the calls behind a mark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args
from urllib.parse import urlencode

import orjson

from runtime.errors import InvalidInputError
from store.traces.sessions.unnamed_sessions import parse_first_id
from store.traces.sums.requested_models import find_requested
from store.traces.sums.rollup import OTHER, OVERAGE, SUBSCRIPTION

Name = Literal["endpoint", "model", "client", "credential", "billing", "session", "agent"]

NAMES: tuple[Name, ...] = get_args(Name)
# The value for calls that name none; among agents that is the main one.
NONE = "(none)"
MAX_CHARS = 500
_CALLS = "/traces/usage"
_COLUMNS: Mapping[Name, str] = {
    "endpoint": "slug",
    "model": "model",
    "client": "client__startswith",  # the list has clients with their versions
    "credential": "credential_hmac",
    "billing": "billing",
    "session": "session_id",
    "agent": "agent_id",
}


@dataclass(frozen=True, slots=True)
class Filters:
    """The values that calls have to have, by name of the filter; "" stands for calls that name none."""

    values: Mapping[Name, str] = field(default_factory=dict)

    def only(self, name: Name, value: str) -> "Filters":
        """Return these filters with one more."""
        return Filters({**self.values, name: value})

    def without(self, name: Name) -> "Filters":
        """Return the other filters."""
        return Filters({key: value for key, value in self.values.items() if key != name})

    def as_arguments(self) -> Sequence[tuple[str, str]]:
        """Return the arguments of an address."""
        return [(name, value or NONE) for name, value in self.values.items()]


def parse_filters(arguments: Mapping[str, str]) -> Filters:
    """Return the filters of an address. Raises InvalidInputError."""
    values: dict[Name, str] = {}
    for name in NAMES:
        value = arguments.get(name, "")
        if len(value) > MAX_CHARS:
            raise InvalidInputError(f"{name} must have at most {MAX_CHARS} characters", name)
        if value:
            values[name] = "" if value == NONE else value
    return Filters(values)


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
