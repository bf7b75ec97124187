"""The watch over budgets: the spend of each, the alerts to make, and the budgets that proxies refuse
for.

The figures are read from the sums in the trace databases, which are written in the transaction of
the calls that they sum. So they are right after a crash, and after calls were priced again, and
this process keeps no data that could be lost. A figure is read again when its database or its
budget has changed, and when the clock of the machine enters another period. The certain cost of
calls in flight is added if the budget may refuse calls. No call counts twice: while it is in flight
it has no entry, and this process makes the entries."""

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from metering.budget_periods import Span, find_span
from metering.budget_shares import find_percent
from recorder.calls_in_flight import CallsInFlight
from recorder.watched_files import PacedLooks, WatchedControl, WatchedTraces
from runtime import clock
from runtime.trouble_log import TroubleLog
from store.budget_file import NAME, BudgetFile, ReachedBudget
from store.control import budget_alerts, budgets
from store.control.budgets import Budget
from store.traces.paths import trace_path
from store.traces.sums import spend

logger = logging.getLogger(__name__)

LOOK_S = 0.5
PAUSE_FACTOR = 10  # looking takes an eleventh of the recorder's time at most
MAX_KEPT = 200  # connections

type ReportKey = tuple[str, float, datetime, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """The spend of a budget in its current period, in dollars."""

    budget: Budget
    span: Span
    spent_usd: float

    @property
    def report_key(self) -> ReportKey | None:
        """Return the key of the alert that is due, which is made once, or None if no share is reached."""
        percent = find_percent(self.budget.shares, self.budget.limit_usd, self.spent_usd)
        if percent is None:
            return None
        return self.budget.id, self.budget.limit_usd, self.span.start, percent

    @property
    def may_be_refused(self) -> bool:
        """Return whether calls in flight can decide if calls are refused."""
        return self.budget.action == "refuse" and self.spent_usd < self.budget.limit_usd

    def is_refused(self, in_flight_usd: float) -> bool:
        """Return whether calls are refused. ``in_flight_usd`` is the certain cost of calls in flight."""
        spent_usd = round(self.spent_usd + in_flight_usd, 8)  # as Spend.dollars
        return self.budget.action == "refuse" and spent_usd >= self.budget.limit_usd


class TraceFile:
    """The trace database of an organisation, and the figures that were read from it."""

    def __init__(self, path: Path) -> None:
        self._traces = WatchedTraces(path)
        self._version: tuple[int, int] | None = None
        self.figures: Sequence[Figure] | None = None

    def refresh(self, own: Sequence[Budget], now: datetime) -> None:
        """Read the figures of the budgets ``own``, unless they are current. Raises sqlite3.Error."""
        version = self._traces.read_version()
        if version == self._version and self._is_of(own, now):
            return
        self.figures = list(_make_figures(self._traces.connect(), own, now))
        self._version = version

    def close(self) -> None:
        """Close the connection. The figures stay until they are read again."""
        self._traces.close()

    def _is_of(self, own: Sequence[Budget], now: datetime) -> bool:
        return (
            self.figures is not None
            and [figure.budget for figure in self.figures] == list(own)
            and all(figure.span.has(now) for figure in self.figures)
        )


class BudgetWatch:
    """A watch over all budgets of a service.

    ``clock_s`` is a monotonic clock in seconds, ``now`` that of the machine."""

    def __init__(
        self,
        data_dir: Path,
        control_path: Path,
        in_flight: CallsInFlight,
        clock_s: Callable[[], float],
        now: Callable[[], datetime] = clock.now,
        *,
        file_name: str = NAME,
    ) -> None:
        self._in_flight = in_flight
        self._data_dir = data_dir
        self._now = now
        self._file = BudgetFile(data_dir, file_name)
        self._written: Sequence[ReachedBudget] | None = None
        self._control = WatchedControl(control_path)
        self._budgets: dict[str, list[Budget]] = {}
        self._traces: dict[str, TraceFile] = {}
        self._reported: set[ReportKey] = set()
        trouble = TroubleLog(logger, "Budgets cannot be looked after (%s)")
        self._looks = PacedLooks(clock_s, LOOK_S, PAUSE_FACTOR, trouble)

    def look(self) -> None:
        """Bring all figures up to date, at most once in ``LOOK_S``. Never raises.

        A failed update is tried again; until then the file for the proxies stays as it is."""
        self._looks.run(self._look)

    def close(self) -> None:
        """Close all databases."""
        self._control.close()
        for traces in self._traces.values():
            traces.close()

    def _look(self) -> None:
        self._read_budgets()
        if self._control.database is None:  # there is no service yet
            return
        now = self._now()
        failed = [
            (organization_id, error)
            for organization_id, own in self._budgets.items()
            if (error := self._refresh(organization_id, own, now)) is not None
        ]
        self._in_flight.refresh(
            {each.budget.organization_id for each in self._list_figures() if each.may_be_refused}
        )
        self._write_reached({organization_id for organization_id, _ in failed})
        self._report(now)
        if failed:
            organization_id, error = failed[0]
            raise sqlite3.OperationalError(f"the traces of {organization_id}: {error}")

    # -- control.db -----------------------------------------------------------------------------------

    def _read_budgets(self) -> None:
        """Read the budgets again if they may have changed. Raises sqlite3.Error."""
        found = self._control.read_changed(budgets.list_all)
        if found is None:
            return
        by_owner = defaultdict[str, list[Budget]](list)
        for budget in found:
            by_owner[budget.organization_id].append(budget)
        self._budgets = dict(by_owner)
        for organization_id in self._traces.keys() - self._budgets.keys():
            self._traces.pop(organization_id).close()

    # -- figures --------------------------------------------------------------------------------------

    def _refresh(
        self, organization_id: str, own: Sequence[Budget], now: datetime
    ) -> sqlite3.Error | None:
        """Bring the figures of an organisation up to date; return the error if that fails, or None."""
        traces = self._traces.get(organization_id)
        if traces is None:
            traces = TraceFile(trace_path(self._data_dir, organization_id))
            self._traces[organization_id] = traces
        try:
            traces.refresh(own, now)
        except sqlite3.Error as error:
            traces.close()
            return error
        if len(self._traces) > MAX_KEPT:
            traces.close()
        return None

    def _list_figures(self) -> Iterator[Figure]:
        for traces in self._traces.values():
            yield from traces.figures or ()

    def _write_reached(self, failed: set[str]) -> None:
        """Write the file of used-up budgets, if it has changed. Raises OSError.

        Organisations in ``failed`` whose figures were never read keep their budgets in the file."""
        before = self._file.read() if self._written is None else self._written
        unknown = {each for each in failed if self._traces[each].figures is None}
        kept = [each for each in before if each.organization_id in unknown]
        reached = [
            _make_reached(each)
            for each in self._list_figures()
            if each.is_refused(self._in_flight.find_usd(each.budget, each.span))
        ]
        if self._written != (now_reached := [*kept, *reached]):
            self._file.write(now_reached)
            self._written = now_reached

    def _report(self, now: datetime) -> None:
        """Make the alerts that were not made yet. Raises sqlite3.Error."""
        figures = {
            key: figure for figure in self._list_figures() if (key := figure.report_key) is not None
        }
        self._reported &= figures.keys()
        control = self._control.database
        if figures.keys() <= self._reported or control is None:
            return
        # Calls must not wait for other writers; this is done again half a second later.
        with suppress(sqlite3.OperationalError), control.transaction(wait=False) as db:
            for key in figures.keys() - self._reported:
                figure = figures[key]
                budget_alerts.make_alert(db, figure.budget, figure.span, figure.spent_usd, now)
            self._reported |= figures.keys()


def _make_figures(
    connection: sqlite3.Connection | None, own: Sequence[Budget], now: datetime
) -> Iterator[Figure]:
    spans = [find_span(each.period, each.time_zone, now) for each in own]
    asked = [(span, each.proxy_endpoint_id, each.of) for each, span in zip(own, spans, strict=True)]
    spent = [0.0] * len(own)
    if connection is not None:
        spent = [each.dollars for each in spend.read_spends(connection, asked)]
    yield from map(Figure, own, spans, spent)


def _make_reached(figure: Figure) -> ReachedBudget:
    budget, span = figure.budget, figure.span
    local = span.end.astimezone(ZoneInfo(budget.time_zone))
    return ReachedBudget(
        organization_id=budget.organization_id,
        subject_id=budget.subject_id,
        period=budget.period,
        starts_s=span.start.timestamp(),
        resets_s=span.end.timestamp(),
        resets_at=f"{local:%Y-%m-%d %H:%M} {budget.time_zone}",
    )
