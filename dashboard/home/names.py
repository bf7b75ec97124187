"""The names of periods, steps and groups, as the home page writes them."""

from collections.abc import Mapping
from datetime import datetime

from dashboard.overview.filters import NONE, FilterName, Name
from dashboard.overview.periods import Period
from runtime.intervals import Interval
from store.traces.sums.rollup import OTHER, UNKNOWN

_MOST_WEEKDAYS = 14  # of more columns the labels are months and days
GROUP_TITLES: dict[Name, str] = {
    "model": "Model",
    "endpoint": "Endpoint",
    "credential": "Credential",
    "client": "Client",
    "agent": "Agent",
    "session": "Session",
    "billing": "API key or subscription",
    "user": "User",
    "project": "Project",
}
_UNKNOWN_NAMES: dict[Name, str] = {
    "model": "No model responded",
    "client": "No client named",
    "credential": "No credential",
    "billing": "Not known",
    "session": "No session",
    "agent": "Main agent",
    "user": "No user named",
    "project": "No project named",
}
_MANY: dict[Name, str] = {
    "endpoint": "endpoints",
    "model": "models",
    "client": "clients",
    "credential": "credentials",
    "billing": "kinds of billing",
    "session": "sessions",
    "agent": "agents",
    "user": "users",
    "project": "projects",
}
_MODEL_PREFIX = "claude-"
_SHORT_CHARS = 8  # of a fingerprint


def name_group(by: Name, value: str, title: str | None = None) -> str:
    """Return the name of a group. ``title`` is that of a session or credential, where it has one."""
    if value == UNKNOWN:
        return _UNKNOWN_NAMES.get(by, NONE)
    if value == OTHER:
        return name_rest(by)
    if by == "credential":
        return title or value[:_SHORT_CHARS]
    return title or (value.removeprefix(_MODEL_PREFIX) if by == "model" else value)


def name_filter(name: FilterName, value: str, names: Mapping[str, str]) -> tuple[str, str]:
    """Return the title of a filter and its value in words. ``names`` are those of credentials."""
    if name == "tag":
        return "Tag", value
    title = names.get(value) if name == "credential" else None
    return GROUP_TITLES[name], name_group(name, value, title)


def name_rest(by: Name) -> str:
    """Return the name of the groups that have none of their own."""
    return f"Other {_MANY[by]}"


def name_step(period: Period, step: Interval) -> str:
    """Return the name of a step: its hour, its day, or the first day of its week."""
    day = f"{step.start:%a %-d %b}"
    if period.step == "hour":
        return f"{day}, {step.start:%H:%M}"
    return day if period.step == "day" else f"week of {day}"


def label_step(period: Period, step: Interval) -> str:
    """Return the label of a step below its column."""
    start = step.start
    if period.step == "hour":
        return f"{start:%H:%M}" if period.days == 1 or start.hour else _label_day(start)
    if period.step == "day" and period.days <= _MOST_WEEKDAYS:
        return _label_day(start)
    return f"{start:%-d %b}"


def _label_day(instant: datetime) -> str:
    return f"{instant:%a %-d}"
