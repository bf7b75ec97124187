"""The alerts of the home page: those of rules, and two that need no rule (a burst of errors, an
expensive session).
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from urllib.parse import urlencode

from dashboard.addresses import session_address
from dashboard.moments import name_offset
from metering.alerts import Burst
from metering.formats import format_count, format_sum_cost
from runtime.extension_values import CallNotice
from store.control.alerts import Alert
from store.traces.sums.alert_reader import ExpensiveSession, read_burst, read_expensive_session

MAX_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAlert:
    """An alert as the page shows it. ``subject`` is in bold before ``sentence``; ``link`` is the address
    of the page that it is about. Alerts that are ``is_mild`` are amber, others red."""

    subject: str
    sentence: str
    link: str
    link_words: str
    is_mild: bool


def list_alerts(
    connection: sqlite3.Connection | None,
    active: Sequence[Alert],
    now: datetime,
    zone: tzinfo,
    notices: Sequence[CallNotice] = (),
) -> list[ShownAlert]:
    """Return the alerts of an organisation, the most serious first, with times in ``zone``.

    ``active`` are alerts of rules, ``notices`` those of extensions; ``connection`` is None if nothing
    has been recorded. At most ``MAX_SHOWN``. Raises sqlite3.Error."""
    found = [show_notice(each) for each in notices]
    found += [_show_alert(each) for each in active]
    if connection is not None:
        kinds = {each.kind for each in active}
        burst = None if "errors" in kinds else read_burst(connection, now)
        if burst is not None:
            found.append(show_burst(burst, zone))
        session = None if "session_cost" in kinds else read_expensive_session(connection, now)
        if session is not None:
            found.append(show_session(session))
    return sorted(found, key=lambda each: each.is_mild)[:MAX_SHOWN]


def show_burst(burst: Burst, zone: tzinfo) -> ShownAlert:
    """Return the alert about a burst of failed calls."""
    most = "" if burst.errors == burst.calls else "mostly "
    last_at = burst.last_at.astimezone(zone)
    first, last = f"{burst.first_at.astimezone(zone):%H:%M}", f"{last_at:%H:%M}"
    times = f"at {last}" if first == last else f"between {first} and {last}"
    return ShownAlert(
        subject=f"{format_count(burst.calls)} calls failed",
        sentence=f"{times} {name_offset(last_at)} on {burst.slug}: {most}{burst.error}.",
        link="/calls?" + urlencode({"failed": "1", "endpoint": burst.slug}),
        link_words="Show them",
        is_mild=False,
    )


def show_notice(notice: CallNotice) -> ShownAlert:
    """Return the alert about a warning of an extension."""
    return ShownAlert(
        subject=notice.text,
        sentence="",
        link=notice.address,
        link_words=notice.words,
        is_mild=False,
    )


def show_session(session: ExpensiveSession) -> ShownAlert:
    """Return the alert about a session that is far more expensive than usual."""
    name = session.title or f"session {session.session_id}"
    return ShownAlert(
        subject="Expensive session:",
        sentence=f"“{name}” is at {format_sum_cost(session.cents)}, {session.times:.0f} times the usual.",
        link=session_address(session.session_id),
        link_words="Open",
        is_mild=True,
    )


def _show_alert(alert: Alert) -> ShownAlert:
    return ShownAlert(
        subject=alert.subject,
        sentence=alert.sentence,
        link=alert.link,
        link_words="Show",
        is_mild=alert.kind in ("session_cost", "window"),
    )
