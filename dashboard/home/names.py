"""The names of periods, steps and groups, as the home page writes them."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from dashboard.call_filters import NONE
from dashboard.overview.filters import FilterName, Name
from dashboard.overview.periods import Period
from runtime.intervals import Interval
from store.traces.sums.rollup import OTHER, UNKNOWN

_MOST_WEEKDAYS = 14  # of more columns the labels are months and days


class _Words(NamedTuple):
    """The words for a field to group by: its title, its plural, and the name for calls without a value."""

    title: str
    many: str
    unknown: str


_WORDS: dict[Name, _Words] = {
    "model": _Words("Model", "models", "No model"),
    "endpoint": _Words("Endpoint", "endpoints", NONE),
    "credential": _Words("Credential", "credentials", "No credential"),
    "client": _Words("Client", "clients", "No client named"),
    "agent": _Words("Agent", "agents", "Main agent"),
    "session": _Words("Session", "sessions", "No session"),
    "billing": _Words("API key or subscription", "kinds of billing", "Not known"),
    "user": _Words("User", "users", "No user named"),
    "project": _Words("Project", "projects", "No project named"),
}
GROUP_TITLES = {name: words.title for name, words in _WORDS.items()}
_MODEL_PREFIX = "claude-"
_SHORT_CHARS = 8  # of a fingerprint


def name_group(by: Name, value: str, title: str | None = None) -> str:
    """Return the name of a group. ``title`` is the title of a session or the name of a credential, if
    known."""
    if value == UNKNOWN:
        return _WORDS[by].unknown
    if value == OTHER:
        return name_rest(by)
    if by == "credential":
        return title or value[:_SHORT_CHARS]
    return title or (value.removeprefix(_MODEL_PREFIX) if by == "model" else value)


def name_filter(name: FilterName, value: str, names: Mapping[str, str]) -> tuple[str, str]:
    """Return the title of a filter and its value in words. ``names`` maps fingerprints of credentials to
    names."""
    if name == "tag":
        return "Tag", value
    title = names.get(value) if name == "credential" else None
    return GROUP_TITLES[name], name_group(name, value, title)


def name_rest(by: Name) -> str:
    """Return the name for all groups that are not shown by themselves."""
    return f"Other {_WORDS[by].many}"


def name_step(period: Period, step: Interval) -> str:
    """Return the name of a step: its hour, its day, or the first day of its week."""
    day = f"{step.start:%a %-d %b}"
    if period.step == "hour":
        return f"{day}, {step.start:%H:%M}"
    return day if period.step == "day" else f"week of {day}"


def label_step(period: Period, step: Interval) -> str:
    """Return the label below the column of a step."""
    start = step.start
    if period.step == "hour":
        return f"{start:%H:%M}" if period.days == 1 or start.hour else _label_day(start)
    if period.step == "day" and period.days <= _MOST_WEEKDAYS:
        return _label_day(start)
    return f"{start:%-d %b}"


def _label_day(instant: datetime) -> str:
    return f"{instant:%a %-d}"
