"""The occasions on which rules for alerts apply, found in the sums of an organisation.

Days are those of the organisation's time zone, as days of budgets are, and hours are UTC."""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from metering.budget_periods import find_span
from metering.credential_names import name_credential
from metering.formats import format_calls, format_sum_cost
from metering.limit_windows import WindowState
from runtime import clock
from runtime.intervals import HOUR, floor_hour
from runtime.safe_text import header_line
from store.control.alerts import Alert, AlertRule
from store.traces.calls.limit_readings import read_states
from store.traces.sums import spend
from store.traces.sums.alert_reader import (
    EXPENSIVE_WITHIN,
    count_errors,
    read_costly_sessions,
)

MAX_TITLE_CHARS = 120
# A reading that is older says nothing of now, and its window may be another one.
READ_WITHIN = timedelta(hours=1)
_WINDOWS = {"5h": "5-hour window", "7d": "week", "7d_oi": "week of some models (7d_oi)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An organisation whose sums are read: its time zone, and names of credentials by fingerprint."""

    time_zone: str
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Occasion:
    """An occasion on which a rule applies. ``key`` identifies it among the occasions of the rule."""

    key: str
    subject: str
    sentence: str
    link: str


def find_alerts(
    db: sqlite3.Connection, rule: AlertRule, watched: Watched, now: datetime
) -> Iterator[Alert]:
    """Yield an alert for each present occasion of a rule, including those that were made before.

    Raises sqlite3.Error."""
    for each in _find(db, rule, watched, now):
        yield Alert(
            id=clock.new_id(),
            organization_id=rule.organization_id,
            rule_id=rule.id,
            occasion=each.key,
            kind=rule.kind,
            subject=each.subject,
            sentence=each.sentence,
            link=each.link,
            at=clock.format_ms(now),
        )


def _find(
    db: sqlite3.Connection, rule: AlertRule, watched: Watched, now: datetime
) -> Iterator[_Occasion]:
    match rule.kind:
        case "session_cost":
            return _find_sessions(db, rule, now)
        case "errors":
            return _find_errors(db, rule.threshold, now)
        case "window":
            return _find_windows(db, rule.threshold, watched, now)
        case "day_cost":
            return _find_day(db, rule.threshold, watched, now)


def _find_sessions(db: sqlite3.Connection, rule: AlertRule, now: datetime) -> Iterator[_Occasion]:
    # Those of days before would all be told at once when a rule is made.
    since = max(now - EXPENSIVE_WITHIN, clock.parse_instant(rule.created_at) - HOUR)
    for each in read_costly_sessions(db, since, 100 * rule.threshold):
        title = header_line(each.title or "")[:MAX_TITLE_CHARS]
        yield _Occasion(
            each.session_id,
            "Expensive session:",
            f"“{title or f'session {each.session_id}'}” is at {format_sum_cost(each.cents)}.",
            f"/sessions/{quote(each.session_id.encode('utf-8', 'replace'), safe='')}",
        )


def _find_errors(db: sqlite3.Connection, threshold: float, now: datetime) -> Iterator[_Occasion]:
    hour = floor_hour(now)
    errors = count_errors(db, hour)
    if errors >= threshold:
        since, until = (f"{each:%Y-%m-%dT%H}" for each in (hour, hour + HOUR))
        yield _Occasion(
            since,
            f"{format_calls(errors)} failed",
            f"since {hour:%H:%M} UTC.",
            "/calls?" + urlencode({"failed": "1", "since": since, "until": until}),
        )


def _find_windows(
    db: sqlite3.Connection, threshold: float, watched: Watched, now: datetime
) -> Iterator[_Occasion]:
    for state in read_states(db, now):
        is_current = state.left is not None and state.read_at > now - READ_WITHIN
        if is_current and state.used >= threshold:
            yield _Occasion(
                f"{state.account} {state.window} {_format(state.resets_at)}",
                f"{state.used:.0%} used",
                _describe_window(state, watched.names),
                "/",
            )


def _describe_window(state: WindowState, names: Mapping[str, str]) -> str:
    words = f"of the {_WINDOWS.get(state.window, state.window)} of the subscription"
    words += f" {header_line(name_credential(state.account, names))}"
    if state.resets_at is not None:
        words += f"; it resets at {clock.format_minute(state.resets_at)} UTC"
    if state.used < 1 and state.used_up_at is not None:
        words += f", and is used up at {clock.format_minute(state.used_up_at)} UTC at this pace"
    return f"{words}."


def _find_day(
    db: sqlite3.Connection, threshold_usd: float, watched: Watched, now: datetime
) -> Iterator[_Occasion]:
    span = find_span("day", watched.time_zone, now)
    cents = spend.read_cost(db, span)
    if round(cents, 6) >= 100 * threshold_usd:
        day = f"{span.start.astimezone(ZoneInfo(watched.time_zone)):%Y-%m-%d}"
        yield _Occasion(
            day,
            f"{day} costs {format_sum_cost(cents)}",
            f"so far, over {format_sum_cost(100 * threshold_usd)}.",
            "/calls?" + urlencode({"since": f"{span.start:%Y-%m-%dT%H}"}),
        )


def _format(instant: datetime | None) -> str:
    return "" if instant is None else clock.format_seconds(instant)
