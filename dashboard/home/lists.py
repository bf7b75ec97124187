"""The lists of the home page: sessions, and failures by kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from dashboard.addresses import CALLS
from dashboard.call_filters import NONE, PERIOD
from dashboard.drawing import bar_width
from dashboard.formats import name_failure
from dashboard.live.in_flight import Flights
from dashboard.overview.periods import DEFAULT_SPAN
from metering.credential_names import name_credential
from store.traces.calls.failures import Failure, Failures
from store.traces.sessions.session_reader import Session

SHOWN = 4


@dataclass(frozen=True, slots=True)
class FailureLine:
    """A kind of failure: its description, the address of its calls, the time of the last one, and their
    number."""

    words: str
    href: str
    last_at: str
    calls: int


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session, the name of its credential, the width of its bar, and whether it has a call in flight."""

    session: Session
    credential: str
    bar: str
    is_in_flight: bool


def list_failures(failures: Failures) -> Sequence[FailureLine]:
    """Return the most frequent kinds of failures."""
    return [
        FailureLine(
            name_failure(each.outcome, each.status_code, each.error_type),
            _find_calls(each),
            each.last_at,
            each.calls,
        )
        for each in failures.kinds[:SHOWN]
    ]


def list_sessions(
    sessions: Sequence[Session], names: Mapping[str, str], flights: Flights
) -> Sequence[SessionLine]:
    """Return the sessions with bars for their costs, the longest for the most expensive session.

    ``names`` maps fingerprints of credentials to names."""
    most = max((each.cost_cents for each in sessions), default=0.0)
    return [
        SessionLine(
            each,
            name_credential(each.credential_hmac, names),
            bar_width(each.cost_cents, most),
            flights.of_session(each.session_id).count > 0,
        )
        for each in sessions
    ]


def failed_address(period: str, **others: str) -> str:
    """Return the address of the list of failed calls in a period, with ``others`` as further filters."""
    arguments = {"failed": "1", **others, PERIOD: period}
    return f"{CALLS}?{urlencode(arguments, errors='replace')}"


def _find_calls(failure: Failure) -> str:
    status = NONE if failure.status_code is None else str(failure.status_code)
    return failed_address(
        DEFAULT_SPAN, error=failure.error_type or NONE, outcome=failure.outcome, status=status
    )
