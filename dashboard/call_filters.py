"""The filters that lists of calls, sessions and sums share, named in the query of an address.

``model=claude-opus-5-5&failed=1&tag.project=checkout`` selects the failed calls of one model for one
project. A name that is given several times means any of its values; different names must all hold.
Arguments with other names, such as the order of a list, are left to the page. ``docs/attribution.md``
has the names. All functions are pure: from the arguments of an address they make SQL over ``usage``,
descriptions of the chosen filters, and arguments for links that add or remove a filter.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

from dashboard import call_conditions as conditions
from dashboard.call_conditions import Calls, Condition
from dashboard.formats import outcome_label
from dashboard.overview.periods import Period, parse_span
from metering.attribution import PROJECT, USER
from runtime.errors import InvalidInputError
from store.traces.sessions.unnamed_sessions import PREFIX

# The value in an address for calls that name none; for agents that is the main one.
NONE = "(none)"
MAX_CHARS, MAX_VALUES = 500, 20
PERIOD, SINCE, UNTIL = "period", "since", "until"
TAG, TAG_PREFIX = "tag", "tag."
_YES = "1"


class Chip(NamedTuple):
    """A chosen filter, for display. ``words`` are its values, "" if it is only on or off."""

    name: str
    title: str
    words: str


# What writes the condition of a filter: from how the calls are read, and values.
type _Write = Callable[[Calls, Sequence[str]], Condition]


class Filter(NamedTuple):
    """A filter that exists. ``is_flag``: it is only on or off. ``has_none``: it can select calls without a
    value."""

    title: str
    write: _Write
    is_flag: bool = False
    has_none: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilters:
    """The filters that an address chooses. ``values`` has the values of each filter by its name, "" for
    calls without a value. ``period`` has the chosen days, None for all."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    period: Period | None = None

    def only(self, name: str, value: str = _YES) -> "CallFilters":
        """Return these filters with ``value`` as the only value of ``name``. Raises InvalidInputError."""
        return replace(self, values={**self.values, name: (_check_value(name, value or NONE),)})

    def without(self, name: str) -> "CallFilters":
        """Return these filters without the filter ``name``."""
        rest = {key: values for key, values in self.values.items() if key != name}
        return replace(self, values=rest)

    def in_period(self, period: Period | None) -> "CallFilters":
        """Return these filters for another period, None for all days."""
        return replace(self, period=period)

    def as_arguments(self) -> list[tuple[str, str]]:
        """Return the filters and the period as names and values for the query of an address."""
        period = [] if self.period is None else [(PERIOD, self.period.span)]
        chosen = [(name, value or NONE) for name, values in self.values.items() for value in values]
        return period + chosen

    def address(self, path: str, **others: str) -> str:
        """Return the address of a page with these filters and with ``others`` as further arguments."""
        arguments = [*self.as_arguments(), *others.items()]
        return f"{path}?{urlencode(arguments, errors='replace')}" if arguments else path

    def condition(self, prefix: str = "") -> Condition:
        """Return the SQL condition on chosen calls, over ``usage`` or ``usage_log``.

        ``prefix`` is put before its columns, such as ``u.`` if the query joins other tables."""
        return self._write(Calls(prefix))

    def _write(self, calls: Calls) -> Condition:
        between = [] if self.period is None else [conditions.is_in(calls, self.period.elapsed)]
        chosen = [_find(name).write(calls, values) for name, values in self.values.items()]
        return conditions.all_of([*between, *chosen])

    def walk_sessions(self, column: str = "session_id") -> Condition:
        """Return the SQL condition that a session has a chosen call, tested for one session at a time.

        ``column`` is the column of the query that has the session id."""
        call = self._write(Calls("u."))
        if not call.values and call.sql == "true":
            return call
        unnamed = "from unnamed_calls as n cross join usage as u on u.id = n.usage_id"
        first = f"cast(substr({column}, {len(PREFIX) + 1}) as integer)"
        return Condition(
            f"(exists (select 1 from usage as u indexed by usage_session"  # noqa: S608 - our own text
            f" where u.session_id = {column} and {call.sql})"
            f" or exists (select 1 {unnamed} where n.first_id = {first}"
            f" and {column} = '{PREFIX}' || n.first_id and {call.sql}))",
            call.values * 2,
        )

    def condition_of_sessions(self, column: str = "session_id") -> Condition:
        """Return the condition that a session has a chosen call, written to be read and edited by people.

        ``column`` is the column of the query that has the session id."""
        call = self._write(Calls("u.", walked=False))
        if not call.values and call.sql == "true":
            return call
        unnamed = f"select '{PREFIX}' || n.first_id from unnamed_calls as n join usage as u"  # noqa: S608
        return Condition(
            f"{column} in (select u.session_id from usage as u"  # noqa: S608 - our own text
            f" where u.session_id is not null and {call.sql}"
            f" union {unnamed} on u.id = n.usage_id where {call.sql})",
            call.values * 2,
        )

    def chips(self) -> list[Chip]:
        """Return the chosen filters for display, without the period."""
        return [
            Chip(
                name,
                _find(name).title,
                "" if _find(name).is_flag else ", ".join(_word(name, each) for each in values),
            )
            for name, values in self.values.items()
        ]

    def describe(self) -> str:
        """Return period and filters as one text: "7 days, Model claude-opus-5-5, Failed"."""
        span = [] if self.period is None else [self.period.title]
        return ", ".join([*span, *(f"{chip.title} {chip.words}".strip() for chip in self.chips())])


def parse_call_filters(arguments: Iterable[tuple[str, str]], now: datetime) -> CallFilters:
    """Return the filters in the arguments of an address, in their order. Raises InvalidInputError.

    Arguments without a value are ignored."""
    values: dict[str, tuple[str, ...]] = {}
    period = None
    for given, text in arguments:
        name = _ALIASES.get(given, given)
        if not text:
            continue
        if name == PERIOD:
            period = parse_span(text, now, PERIOD)
        elif is_filter(name):
            name = name.lower() if name.startswith(TAG_PREFIX) else name
            value = _check_value(name, text)
            values[name] = tuple(dict.fromkeys((*values.get(name, ()), value)))
            if len(values[name]) > MAX_VALUES:
                raise InvalidInputError(f"{name} may have at most {MAX_VALUES} values", name)
    return CallFilters(values=values, period=period)


def is_filter(name: str) -> bool:
    """Return whether ``name`` is that of a filter of calls."""
    return name in FILTERS or (name.startswith(TAG_PREFIX) and len(name) > len(TAG_PREFIX))


def _find(name: str) -> Filter:
    known = FILTERS.get(name)
    if known is not None:
        return known
    key = name.removeprefix(TAG_PREFIX)
    return Filter(f"Tag {key}:", partial(conditions.is_tagged, key))


def _check_value(name: str, text: str) -> str:
    """Return the value of a filter as it is stored, "" for "(none)". Raises InvalidInputError."""
    if text == NONE and _find(name).has_none:
        return ""
    if len(text) > MAX_CHARS or "\0" in text:
        raise InvalidInputError(f"{name} must have at most {MAX_CHARS} characters", name)
    expected = _EXPECTED.get(name, _EXPECTED_OF_FLAG if _find(name).is_flag else None)
    if expected is not None and not expected.pattern.fullmatch(text):
        raise InvalidInputError(f"{name} must be {expected.words}", name)
    is_folded = name == TAG or (name.startswith(TAG_PREFIX) and name not in FILTERS)
    return text.lower() if is_folded else text


def _word(name: str, value: str) -> str:
    if not value:
        return "main" if name == "agent" else "none"
    if name == "outcome":
        return outcome_label(value)
    return f"${value}" if name == "cost" else value


class _Expected(NamedTuple):
    """The pattern that the values of a filter must match, and a description for errors."""

    pattern: re.Pattern[str]
    words: str


_INSTANT = _Expected(
    re.compile(r"\d{4}-\d\d-\d\d(T\d\d(:\d\d(:\d\d(\.\d{1,3})?)?)?Z?)?", re.ASCII),
    "a day or an instant, such as 2026-01-31T14",
)
_EXPECTED: Mapping[str, _Expected] = {
    SINCE: _INSTANT,
    UNTIL: _INSTANT,
    "cost": _Expected(
        re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?"), "a number of dollars, such as 0.10"
    ),
    "status": _Expected(re.compile(r"[0-9]{3}"), "a number such as 529"),
}
_EXPECTED_OF_FLAG = _Expected(re.compile(_YES), _YES)
# Older or other names of the same filters.
_ALIASES = {"slug": "endpoint"}
FILTERS: Mapping[str, Filter] = {
    SINCE: Filter("From", partial(conditions.arrived, ">="), has_none=False),
    UNTIL: Filter("Before", partial(conditions.arrived, "<"), has_none=False),
    "failed": Filter("Failed", conditions.is_failed, is_flag=True, has_none=False),
    "tool_failed": Filter(
        "A tool failed",
        partial(conditions.is_in_table, "tool_uses", "problem is not null"),
        is_flag=True,
        has_none=False,
    ),
    "cache_break": Filter(
        "Broke the cache",
        partial(conditions.is_in_table, "cache_breaks", "true"),
        is_flag=True,
        has_none=False,
    ),
    "cost": Filter("At least", conditions.costs_at_least, has_none=False),
    "endpoint": Filter("Endpoint", partial(conditions.is_column, "slug")),
    "model": Filter("Model", conditions.is_model),
    "credential": Filter("Credential", conditions.is_of_credential),
    "client": Filter("Client", conditions.is_client),
    "billing": Filter("Paid by", conditions.is_billing),
    "product": Filter("Interface", partial(conditions.is_column, "product")),
    "session": Filter("Session", conditions.is_session),
    "agent": Filter("Agent", partial(conditions.is_column, "agent_id")),
    "outcome": Filter("Outcome", partial(conditions.is_column, "outcome")),
    "error": Filter("Error", partial(conditions.is_column, "error_type")),
    "status": Filter("Status", conditions.is_status),
    "tool": Filter("Tool", partial(conditions.uses, "tool")),
    "server": Filter("MCP server", partial(conditions.uses, "server")),
    f"{TAG_PREFIX}{USER}": Filter("User", partial(conditions.is_column, "attributed_user")),
    f"{TAG_PREFIX}{PROJECT}": Filter("Project", partial(conditions.is_column, "project")),
    TAG: Filter("Tag", conditions.has_tag),
    "label": Filter("Label", conditions.is_labelled),
}
