"""The lists of the home page in words: sessions, failures by kind, and what could have been saved."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from dashboard.drawing import bar_width
from dashboard.formats import outcome_label
from runtime import clock
from store.traces.calls.failures import Failure, Failures
from store.traces.sessions.session_reader import Session

SHOWN = 4
_SINCE_CHARS = 10  # of an instant, its day


@dataclass(frozen=True, slots=True)
class FailureLine:
    """A kind of failure in words, with the address of its calls."""

    words: str
    href: str
    last_at: str
    calls: int


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session with the width of its bar."""

    session: Session
    bar: str


def list_failures(failures: Failures, since: datetime) -> Sequence[FailureLine]:
    """Return the most frequent kinds of failures."""
    return [
        FailureLine(_describe(each), _find_calls(each, since), each.last_at, each.calls)
        for each in failures.kinds[:SHOWN]
    ]


def list_sessions(sessions: Sequence[Session]) -> Sequence[SessionLine]:
    """Return the sessions with bars, of which the most expensive one has all of its room."""
    most = max((each.cost_cents for each in sessions), default=0.0)
    return [SessionLine(each, bar_width(each.cost_cents, most)) for each in sessions]


def _describe(failure: Failure) -> str:
    status, kind = failure.status_code, failure.error_type
    if status is not None and status >= 400:
        return f"{status} {kind or outcome_label(failure.outcome)}"
    label = outcome_label(failure.outcome)
    return f"{label}: {kind}" if kind and kind != failure.outcome else label


def failed_address(since: datetime, **others: str) -> str:
    """Return the address of the calls that failed since the day of an instant."""
    arguments = {
        "created_at__gte": clock.format_ms(since)[:_SINCE_CHARS],
        "outcome__notin": "complete,client_disconnected",
    } | others
    return f"/traces/usage?{urlencode(arguments)}"


def _find_calls(failure: Failure, since: datetime) -> str:
    named = {
        "outcome": failure.outcome,
        "status_code": failure.status_code,
        "error_type": failure.error_type,
    }
    chosen = {name: str(value) for name, value in named.items() if value is not None}
    absent = {f"{name}__isnull": "1" for name, value in named.items() if value is None}
    return failed_address(since, **chosen, **absent)
