"""The search for occasions of rules for alerts, in the pauses of the recorder.

An alert is made once for each occasion, in ``control.db`` with its deliveries, which the web
process sends. Traces are read again if they were written to, or if the rules have changed."""

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from recorder.alert_occasions import Watched, find_alerts
from recorder.watched_files import PacedLooks, WatchedControl, WatchedTraces
from runtime import clock
from runtime.trouble_log import TroubleLog
from store.control import alerts, budgets, credential_names
from store.control.alerts import Alert, AlertRule
from store.traces.paths import trace_path
from store.traces.sums import spend

logger = logging.getLogger(__name__)

LOOK_S = 2.0
PAUSE_FACTOR = 20  # looking takes a twentieth of the recorder's time at most
MAX_KEPT = 200  # connections
MAX_REMEMBERED = 10_000  # occasions that need not be looked up

type _Occasion = tuple[str, str]  # the id of the rule and what tells its occasions apart


@dataclass(frozen=True, slots=True)
class _Organization:
    """The rules of an organisation, with its time zone and names."""

    rules: Sequence[AlertRule]
    watched: Watched


class AlertWatch:
    """A watch for the occasions of all rules of a service.

    ``clock_s`` is a monotonic clock in seconds, ``now`` that of the machine."""

    def __init__(
        self,
        data_dir: Path,
        control_path: Path,
        clock_s: Callable[[], float],
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._data_dir = data_dir
        self._now = now
        self._control = WatchedControl(control_path)
        self._organizations: dict[str, _Organization] = {}
        self._traces: dict[str, WatchedTraces] = {}
        self._versions: dict[str, tuple[int, int] | None] = {}
        self._made: set[_Occasion] = set()
        trouble = TroubleLog(logger, "Alerts cannot be looked for (%s)")
        self._looks = PacedLooks(clock_s, LOOK_S, PAUSE_FACTOR, trouble)

    def look(self) -> None:
        """Make the alerts for present occasions, at most once in ``LOOK_S``. Never raises."""
        self._looks.run(self._look)

    def close(self) -> None:
        """Close all databases."""
        self._control.close()
        for traces in self._traces.values():
            traces.close()

    def _look(self) -> None:
        self._read_rules()
        now, failed = self._now(), ""
        for organization_id, organization in self._organizations.items():
            traces = self._traces.setdefault(
                organization_id, WatchedTraces(trace_path(self._data_dir, organization_id))
            )
            try:
                self._look_at(organization_id, organization, traces, now)
            except sqlite3.Error as error:
                traces.close()
                failed = f"the traces of {organization_id}: {error}"
            if len(self._traces) > MAX_KEPT:
                traces.close()
        if failed:
            raise sqlite3.OperationalError(failed)

    def _read_rules(self) -> None:
        """Read the rules again if they may have changed. Raises sqlite3.Error."""
        found = self._control.read_changed(_read_organizations)
        is_same = found is None if self._control.database else not self._organizations
        if is_same or found == self._organizations:  # others write to this database all the time
            return
        self._organizations = found or {}
        self._versions.clear()
        for organization_id in self._traces.keys() - self._organizations.keys():
            self._traces.pop(organization_id).close()

    def _look_at(
        self,
        organization_id: str,
        organization: _Organization,
        traces: WatchedTraces,
        now: datetime,
    ) -> None:
        version = traces.read_version()
        connection = traces.connect()
        if connection is None or version == self._versions.get(organization_id):
            return
        found = []
        if spend.is_ready(connection):
            found = [
                alert
                for rule in organization.rules
                for alert in find_alerts(connection, rule, organization.watched, now)
                if (alert.rule_id, alert.occasion) not in self._made
            ]
        if self._make(found):
            self._versions[organization_id] = version

    def _make(self, found: Sequence[Alert]) -> bool:
        """Store alerts, unless they were made before; return whether that was possible now.

        Raises sqlite3.Error."""
        control = self._control.database
        if not found or control is None:
            return True
        # Calls must not wait for other writers; this is done again two seconds later.
        with suppress(sqlite3.OperationalError), control.transaction(wait=False) as db:
            for alert in found:
                alerts.make(db, alert)
            if len(self._made) > MAX_REMEMBERED:
                self._made.clear()
            self._made |= {(each.rule_id, each.occasion) for each in found}
            return True
        return False


def _read_organizations(db: sqlite3.Connection) -> dict[str, _Organization]:
    rules = defaultdict[str, list[AlertRule]](list)
    for rule in alerts.list_all_rules(db):
        rules[rule.organization_id].append(rule)
    return {
        organization_id: _Organization(
            own,
            Watched(
                time_zone=budgets.get_time_zone(db, organization_id),
                names=credential_names.read_names(db, organization_id),
            ),
        )
        for organization_id, own in rules.items()
    }
