"""Reading all that the home page shows, from one connection in one snapshot.

Sums, newest rows and the lists of sessions and savings are read, so the page takes the same time however
many calls there are. If a group or filter has no sums, calls are read, for a second at most;
``Costs.back_to`` is the time of the oldest call read by then. Days are UTC.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo

from conversations.savings.kinds import KINDS, Kind
from dashboard.home.alerts import ShownAlert, list_alerts
from dashboard.home.choice import Choice
from dashboard.overview.filters import Filters
from dashboard.overview.periods import DEFAULT_SPAN, Period, parse_span
from dashboard.overview.series import Series, make_series
from metering.limit_windows import WindowState
from metering.other_models import Exchange, Prices, suggest
from runtime import clock
from runtime.extension_values import CallNotice
from runtime.intervals import HOUR, Interval, floor_hour
from store.control.alerts import Alert
from store.database import snapshot
from store.traces.calls.credential_accounts import read_accounts
from store.traces.calls.failures import Failures, count_failures
from store.traces.calls.limit_readings import read_states
from store.traces.maintenance.removal import used_bytes
from store.traces.savings.savings_reader import SavingsReader
from store.traces.savings.tools_reader import ToolCost, list_most_expensive_tools
from store.traces.sessions.session_list import begin_week
from store.traces.sessions.session_means import SessionDay, read_session_days
from store.traces.sessions.session_reader import Session, SessionReader
from store.traces.sums.forecast import Month
from store.traces.sums.model_uses import read_model_uses
from store.traces.sums.month import expect_day, read_month
from store.traces.sums.overview_query import (
    AGENT_COLUMNS,
    DAY,
    OF_CALLS,
    SAID_COLUMNS,
    Found,
    Query,
)
from store.traces.sums.overview_reader import OverviewReader
from store.traces.sums.products import ProductTotals, read_products
from store.traces.sums.timings import Timing
from store.traces.sums.usage_report import Totals, add_up

WEEK = timedelta(days=7)
SESSIONS = 6
SHOWN_GROUPS = 6
TOOLS = 4
OTHER_MODELS = 2
NOTHING = Totals()


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The figures of today and of the month. ``week_before_cents`` is the cost of the same day of the last
    week until this time of day, None if nothing was recorded then; ``last_month_cents`` is that of the
    month before, likewise."""

    today: Totals
    week_before_cents: float | None
    month: Month
    last_month_cents: float | None
    refused_by_budget: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The section about costs.

    ``now`` and ``before`` are the totals by group in the period ``compared`` and in the one before it;
    ``before`` is None if it cannot be read. ``smaller`` is the sum of the groups that are not among the
    largest. ``expected_cents`` is the expected cost of the whole present day. ``timings`` (by day) and
    ``group_timings`` (by group) are set for the measure of time only. ``days``, ``days_compared`` and
    ``days_before`` are set for the measures per session and per prompt only: for the columns and for
    both periods. ``back_to`` is the time of the oldest call that was read, None if all were."""

    choice: Choice
    compared: Period
    series: Series
    now: Mapping[str, Totals]
    before: Mapping[str, Totals] | None
    smaller: Totals = NOTHING
    expected_cents: float | None = None
    others: Sequence[Exchange] = ()
    timings: Mapping[str, Timing] = field(default_factory=dict)
    group_timings: Mapping[str, Timing] = field(default_factory=dict)
    days: Sequence[SessionDay] = ()
    days_compared: Sequence[SessionDay] = ()
    days_before: Sequence[SessionDay] = ()
    titles: Mapping[str, str | None] = field(default_factory=dict)
    back_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class SavedKind:
    """The cost in cents that one kind of finding could have saved."""

    kind: Kind
    cents: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The contents of the home page of an organisation that has recorded calls.

    ``windows`` are those of all subscriptions, the last used one first. ``week`` are the totals of today
    and the six days before; ``saved`` is the part of their cost that could have been saved. ``accounts``
    maps fingerprints of credentials to accounts. ``last_id`` is the row id of the newest recorded call."""

    strip: Strip
    costs: Costs
    week: Totals
    alerts: Sequence[ShownAlert] = ()
    windows: Sequence[WindowState] = ()
    sessions: Sequence[Session] = ()
    failures: Failures = field(default_factory=Failures)
    saved: Sequence[SavedKind] = ()
    tools: Sequence[ToolCost] = ()
    products: Sequence[ProductTotals] = ()
    accounts: Mapping[str, str] = field(default_factory=dict)
    size_bytes: int = 0
    last_id: int = 0


def read_home(
    db: sqlite3.Connection,
    choice: Choice,
    prices: Prices,
    now: datetime,
    active: Sequence[Alert] = (),
    zone: tzinfo = UTC,
    notices: Sequence[CallNotice] = (),
) -> Home | None:
    """Read what the home page shows; None if nothing has been recorded yet.

    ``active`` are the alerts of rules, ``notices`` the warnings of extensions; times in alerts are in
    ``zone``. Raises sqlite3.Error."""
    with snapshot(db):
        reader = OverviewReader(db)
        if not reader.is_ready or reader.find_first_hour() is None:
            return None
        week = parse_span(DEFAULT_SPAN, now).elapsed
        return Home(
            strip=_read_strip(reader, now),
            alerts=list_alerts(db, active, now, zone, notices),
            costs=_read_costs(db, reader, choice, prices, now),
            week=_sum(reader, week),
            windows=read_states(db, now),
            sessions=_read_sessions(db, choice, now),
            failures=count_failures(db, clock.format_ms(week.start)),
            saved=_read_saved(db, now),
            tools=list_most_expensive_tools(db, now.date() - WEEK + DAY, now.date(), TOOLS),
            products=read_products(db, now.date().replace(day=1), now.date()),
            accounts=read_accounts(db),
            size_bytes=used_bytes(db),
            last_id=SessionReader(db).find_last_id(),
        )


# -- the strip ------------------------------------------------------------------------------------------


def _read_strip(reader: OverviewReader, now: datetime) -> Strip:
    hour = floor_hour(now)
    midnight, month = hour.replace(hour=0), hour.replace(day=1, hour=0)
    today = _sum(reader, Interval(midnight, hour + HOUR))
    rejected = reader.count_rejected(Query(start=midnight, end=hour + HOUR))
    first = reader.find_first_hour() or now
    return Strip(
        today=replace(today, rejected=sum(rejected.values())),
        week_before_cents=_read_week_before(reader, now) if first < midnight - WEEK + DAY else None,
        month=read_month(reader, now),
        last_month_cents=_cost(reader, (month - DAY).replace(day=1), month)
        if first < month
        else None,
        refused_by_budget=reader.count_refused_by_budgets(now.date()) if rejected else 0,
    )


def _read_week_before(reader: OverviewReader, now: datetime) -> float:
    """Return the cost in cents of the same day of the last week until this time of day.

    Of the hour that is not over, the share that has passed is counted."""
    then = floor_hour(now) - WEEK
    part = (now - floor_hour(now)) / HOUR
    whole = _cost(reader, then.replace(hour=0), then)
    return whole + part * _cost(reader, then, then + HOUR)


def _cost(reader: OverviewReader, start: datetime, end: datetime) -> float:
    return reader.sum_cents(Query(start=start, end=end))[0]


def _sum(reader: OverviewReader, interval: Interval) -> Totals:
    found = reader.read(Filters().query(interval), timed=False)
    return add_up(found.cells.values(), None)


# -- costs ----------------------------------------------------------------------------------------------


def _read_costs(
    db: sqlite3.Connection,
    reader: OverviewReader,
    choice: Choice,
    prices: Prices,
    now: datetime,
) -> Costs:
    compared, filters, by = choice.compared(now), choice.filters, choice.group
    is_kept = not (filters.values.keys() & OF_CALLS) and by not in AGENT_COLUMNS
    is_hourly = choice.period.step == "hour" and is_kept and choice.measure != "time"
    found = reader.read(
        filters.query(choice.period.elapsed, by, hourly=is_hourly),
        timed=False,
    )
    whole = found
    if by in OF_CALLS and not filters.values:
        whole = reader.read(filters.query(choice.period.elapsed), timed=False)
    series = make_series(choice.period.steps, whole.cells, found.cells, SHOWN_GROUPS)
    shown = [group.name for group in series.listed if group.name]
    now_found = found
    if found.rest and compared != choice.period:  # which other groups are the largest of
        now_found = reader.read(filters.query(compared.elapsed, by), timed=False)
    costs = Costs(
        choice=choice,
        compared=compared,
        series=series,
        now=_total_by_group(now_found, compared),
        smaller=add_up(now_found.rest.values(), None) if now_found.rest else NOTHING,
        before=_total_by_group(reader.read(filters.query(compared.before, by), timed=False))
        if is_kept and choice.measure != "time" and not (by in SAID_COLUMNS and filters.values)
        else None,
        titles=reader.find_titles(shown) if by == "session" else {},
        back_to=found.back_to,
    )
    return _add_measure(db, reader, costs, found, prices, now)


def _add_measure(
    db: sqlite3.Connection,
    reader: OverviewReader,
    costs: Costs,
    found: Found,
    prices: Prices,
    now: datetime,
) -> Costs:
    """Return the costs with the further values that their measure shows."""
    choice = costs.choice
    filters, period = choice.filters, choice.period
    is_kept = not (filters.values.keys() & OF_CALLS)
    if choice.measure == "cost" and is_kept:
        uses = read_model_uses(db, filters.query(costs.compared.elapsed))
        costs = replace(costs, others=suggest(uses, prices, now, OTHER_MODELS))
        if period.last == now.date() and period.step == "day":
            so_far = costs.series.steps[-1].totals.cost_cents
            query = filters.query(period.elapsed)
            costs = replace(costs, expected_cents=expect_day(reader, so_far, now, query))
    elif choice.measure == "time":
        by = None if choice.group in OF_CALLS else choice.group
        query = filters.query(period.elapsed, by)
        groups, days = reader.read_timings(query) if is_kept else ({}, {})
        if choice.group in OF_CALLS or found.timings:  # calls were read, or there are none by this
            groups = found.timings
        costs = replace(costs, timings=days, group_timings=groups)
    elif not choice.is_grouped:
        costs = replace(
            costs,
            days=_read_days(db, period.elapsed),
            days_compared=_read_days(db, costs.compared.elapsed),
            days_before=_read_days(db, costs.compared.before),
        )
    return costs


def _read_days(db: sqlite3.Connection, interval: Interval) -> Sequence[SessionDay]:
    return read_session_days(db, clock.format_ms(interval.start), clock.format_ms(interval.end))


def _total_by_group(found: Found, within: Period | None = None) -> dict[str, Totals]:
    """Return the totals of each group, of all steps or of the days of the period ``within``."""
    groups: dict[str, list[tuple[float, ...]]] = {}
    for (step, name), sums in found.cells.items():
        if within is None or within.first.isoformat() <= step[:10] <= within.last.isoformat():
            groups.setdefault(name, []).append(sums)
    return {name: add_up(sums, None) for name, sums in groups.items()}


# -- lists ----------------------------------------------------------------------------------------------


def _read_sessions(db: sqlite3.Connection, choice: Choice, now: datetime) -> Sequence[Session]:
    reader = SessionReader(db)
    if not reader.is_ready:
        return ()
    if choice.order == "cost":
        return reader.list_most_expensive(clock.format_ms(begin_week(now)), SESSIONS)
    return reader.list_sessions(SESSIONS)


def _read_saved(db: sqlite3.Connection, now: datetime) -> Sequence[SavedKind]:
    """Return the possible savings of the last seven days by kind, the largest first."""
    reader = SavingsReader(db)
    if not reader.is_ready:
        return ()
    cents: dict[str, float] = {}
    for group in reader.list_groups(now.date() - WEEK + timedelta(days=1), now.date()):
        if group.finding in KINDS and KINDS[group.finding].is_saving:
            cents[group.finding] = cents.get(group.finding, 0.0) + group.cents
    found = [SavedKind(KINDS[name], amount) for name, amount in cents.items() if amount > 0]
    return sorted(found, key=lambda each: (-each.cents, each.kind.name))
