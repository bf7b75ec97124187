"""The figures of budgets, from the databases to what proxies refuse."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import accumulate, count

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from addon.budgets import Budgets
from addon.periodic_tasks import TICK_S
from addon.routing import Destination
from metering.budget_periods import find_span
from recorder.budgets import LOOK_S, BudgetWatch
from runtime import clock as clocks
from store.budget_file import BudgetFile
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users
from store.traces.costs import NewCost
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.manage.organizations import make_people
from tests.store.traffic import make_entry

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Clock:
    """Both clocks: that of the machine, and a monotonic one."""

    def __init__(self) -> None:
        self.now = NOON
        self.elapsed_s = 100.0

    def advance(self, seconds=LOOK_S):
        self.now += timedelta(seconds=seconds)
        self.elapsed_s += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def control(tmp_path):
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
        yield control


@pytest.fixture
def management(control, tmp_path):
    return Management(control, tmp_path)


@pytest.fixture
def ann(management, control):
    return make_people(management, Users(control)).ann


@pytest.fixture
def ci(management, ann):
    return management.create_endpoint(ann, "CI", "ci")


@pytest.fixture
def traces(tmp_path, ann):
    with TraceDatabase(trace_path(tmp_path, ann.organization_id)) as traces:
        yield traces


@pytest.fixture
def make_watch(tmp_path, clock):
    watches = []

    def make():
        watches.append(
            BudgetWatch(
                tmp_path, tmp_path / "control.db", lambda: clock.elapsed_s, lambda: clock.now
            )
        )
        return watches[-1]

    yield make
    for watch in watches:
        watch.close()


@pytest.fixture
def watch(make_watch):
    return make_watch()


@pytest.fixture
def look(watch, clock, tmp_path):
    """Look again; returns the ids of what is used up."""

    def look():
        clock.advance()
        watch.look()
        return [each.subject_id for each in BudgetFile(tmp_path).read()]

    return look


def set_budget(management, caller, endpoint="ci", limit_usd=1.0, period="day", action="refuse"):
    management.budgets.put(caller, endpoint, period=period, limit_usd=limit_usd, action=action)


def make_call(endpoint_id, cents, at=NOON):
    return make_entry(
        proxy_endpoint_id=endpoint_id,
        created_at=clocks.format_ms(at),
        cost_cents=None if cents is None else Decimal(cents),
    )


def list_alerts(control):
    with control.reading() as db:
        rows = db.execute("select slug, percent from budget_alerts order by id")
        return rows.fetchall()


def test_a_budget_is_used_up_at_its_limit_and_not_below(look, management, ann, ci, traces):
    set_budget(management, ann)
    assert look() == []
    traces.insert([make_call(ci.id, "99.9999")])
    assert look() == []
    traces.insert([make_call(ci.id, "0.0001")])
    assert look() == [ci.id]


def test_ten_times_a_tenth_is_one(look, management, ann, ci, traces):
    set_budget(management, ann, limit_usd=0.01)
    for _ in range(10):
        traces.insert([make_call(ci.id, "0.1")])
    assert look() == [ci.id]


def test_the_budget_of_an_organisation_is_over_all_endpoints(look, management, ann, ci, traces):
    set_budget(management, ann, None)
    set_budget(management, ann, "ci")
    traces.insert([make_call(ci.id, 60), make_call("another", 60)])
    assert look() == [ann.organization_id]


def test_a_budget_that_only_warns_refuses_nothing(look, management, ann, ci, traces, control):
    set_budget(management, ann, action="warn")
    traces.insert([make_call(ci.id, 100)])
    assert look() == []
    assert list_alerts(control) == [("ci", 100)]


def test_calls_without_a_price_count_once_they_have_one(look, management, ann, ci, traces):
    set_budget(management, ann)
    traces.insert([make_call(ci.id, None)])
    assert look() == []
    items = make_call(ci.id, 100).cost_items
    traces.update_costs([NewCost(usage_id=1, cost_cents=Decimal(100), cost_items=items)])
    assert look() == [ci.id]
    items = make_call(ci.id, 5).cost_items
    traces.update_costs([NewCost(usage_id=1, cost_cents=Decimal(5), cost_items=items)])
    assert look() == []


def test_a_change_of_the_budget_takes_effect(look, management, ann, ci, traces):
    traces.insert([make_call(ci.id, 100)])
    set_budget(management, ann)
    assert look() == [ci.id]
    set_budget(management, ann, limit_usd=2)
    assert look() == []
    set_budget(management, ann, limit_usd=0.5)
    assert look() == [ci.id]
    management.budgets.delete(ann, "ci")
    assert look() == []


def test_the_next_day_begins_anew_in_the_time_zone(look, management, ann, ci, traces, clock):
    management.budgets.set_time_zone(ann, "Asia/Kolkata")
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 100)])
    assert look() == [ci.id]
    clock.now = NOON.replace(hour=18, minute=29, second=59)
    assert look() == [ci.id]
    clock.now = NOON.replace(hour=18, minute=30)
    assert look() == []


def test_a_clock_that_is_set_is_followed_both_ways(look, management, ann, ci, traces, clock):
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 100)])
    assert look() == [ci.id]
    clock.now = NOON + timedelta(days=40)
    assert look() == []
    clock.now = NOON
    assert look() == [ci.id]
    clock.now = NOON - timedelta(days=1)
    assert look() == []


def test_a_recorder_that_starts_again_finds_the_same(
    look, make_watch, management, ann, ci, traces, clock, tmp_path, control
):
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 100)])
    look()
    (tmp_path / "budgets.json").unlink()
    make_watch().look()
    assert [each.subject_id for each in BudgetFile(tmp_path).read()] == [ci.id]
    assert list_alerts(control) == [("ci", 100)]  # and reports nothing twice


def test_what_was_used_up_stays_so_while_the_traces_cannot_be_read(
    look, make_watch, management, ann, ci, traces, tmp_path, caplog
):
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 100)])
    look()
    traces.close()
    path = trace_path(tmp_path, ann.organization_id)
    for each in path.parent.iterdir():
        each.unlink()
    path.write_bytes(b"not a database" * 1000)
    for starts_again in (False, True):
        if starts_again:
            make_watch().look()
        assert look() == [ci.id]
    assert "Budgets cannot be looked after" in caplog.text


def test_the_traces_of_one_organisation_hold_up_no_other(
    look, management, ann, ci, traces, tmp_path, caplog
):
    caplog.set_level(logging.ERROR)
    cid = management.find_caller("cid@example.org")
    set_budget(management, cid, None)
    path = trace_path(tmp_path, cid.organization_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database" * 1000)
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 100)])
    assert look() == [ci.id]


def test_each_percentage_makes_one_alert(look, management, ann, ci, traces, control):
    set_budget(management, ann)
    for cents in (79, 1, 1, 18, 1, 50):
        traces.insert([make_call(ci.id, cents)])
        look()
    assert list_alerts(control) == [("ci", 80), ("ci", 100)]


def test_an_alert_is_made_later_where_somebody_else_writes_control_db(
    look, management, ann, ci, traces, control, monkeypatch
):
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 100)])
    begin = ControlDatabase.transaction

    def begin_without_waiting(database, *, wait=True):
        assert not wait  # calls would wait, too
        return begin(database, wait=wait)

    with control.transaction():
        monkeypatch.setattr(ControlDatabase, "transaction", begin_without_waiting)
        assert look() == [ci.id]
    assert list_alerts(control) == []
    look()
    assert list_alerts(control) == [("ci", 100)]


def test_nothing_is_read_again_while_nothing_changes(
    look, management, ann, ci, traces, monkeypatch
):
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 10)])
    look()
    monkeypatch.setattr("recorder.budgets.spend.read_spend", lambda *_: pytest.fail("read again"))
    look()


def test_a_look_that_took_long_is_followed_by_a_longer_pause(
    watch, management, ann, ci, traces, clock, monkeypatch
):
    set_budget(management, ann)
    looks = []

    def find_slowly(*arguments):
        looks.append(clock.elapsed_s)
        clock.advance(1)
        return find_span(*arguments)

    monkeypatch.setattr("recorder.budgets.find_span", find_slowly)
    watch.look()
    clock.advance(9)
    traces.insert([make_call(ci.id, 10)])
    watch.look()
    assert len(looks) == 1
    clock.advance(1)
    watch.look()
    assert len(looks) == 2


def test_without_a_control_database_there_is_nothing_to_watch(tmp_path):
    BudgetWatch(tmp_path, tmp_path / "control.db", lambda: 1.0).look()
    assert not (tmp_path / "budgets.json").exists()


# -- the overshoot ---------------------------------------------------------------------------------


@dataclass
class Flight:
    """A call that was let through: when it began, when it is recorded, and what it costs."""

    began_s: float
    recorded_s: float
    cents: int


STEP_S = 0.125


@pytest.fixture
def simulate(management, ann, traces, watch, clock, tmp_path):
    """Lets calls come; returns those that were let through, what was recorded as spent at each refusal,
    and when that reached the limit, if it did."""

    def run(limit_cents, calls):
        endpoint = management.create_endpoint(ann, "CI")
        set_budget(management, ann, endpoint.id, limit_cents / 100)
        clock.advance()
        watch.look()
        proxy = Budgets(BudgetFile(tmp_path), lambda _: None, lambda: clock.now.timestamp())
        arrivals = list(zip(accumulate(each[0] for each in calls), calls, strict=True))
        flights: list[Flight] = []
        refusals: list[int] = []
        spent, reached_s = 0, None
        for step in count():
            now_s = clock.elapsed_s
            due = [each for each in flights if now_s - STEP_S < each.recorded_s <= now_s]
            if due:
                traces.insert([make_call(endpoint.id, each.cents, clock.now) for each in due])
                spent += sum(each.cents for each in due)
            if reached_s is None and spent >= limit_cents:
                reached_s = now_s
            watch.look()
            if step % 2:
                proxy.refresh()
            while arrivals and arrivals[0][0] <= step:
                _, (_, length, cents) = arrivals.pop(0)
                if proxy.admit(Destination.MESSAGES, "POST", "/v1/messages", endpoint) is None:
                    flights.append(Flight(now_s, now_s + (1 + length) * STEP_S, cents))
                else:
                    refusals.append(spent)
            if not arrivals and all(each.recorded_s <= now_s for each in flights):
                return flights, refusals, reached_s
            clock.advance(STEP_S)
        raise AssertionError

    return run


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    limit_cents=st.integers(1, 40),
    calls=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 40), st.integers(0, 10)),
        min_size=1,
        max_size=40,
    ),
)
def test_calls_are_refused_at_the_limit_and_let_through_no_more_than_is_stated(
    simulate, limit_cents, calls
):
    """Each call comes so many eighths of a second after the one before, is recorded so many after it
    came, and costs so many cents. docs/budgets.md states what is let through."""
    flights, refusals, reached_s = simulate(limit_cents, calls)
    assert all(spent >= limit_cents for spent in refusals)
    if reached_s is None:
        assert refusals == []
        return
    age_s = LOOK_S + TICK_S
    in_flight = [each for each in flights if each.began_s < reached_s < each.recorded_s]
    within_age = [each for each in flights if reached_s <= each.began_s <= reached_s + age_s]
    recorded = [each for each in flights if each.recorded_s <= reached_s]
    assert len(flights) == len(in_flight) + len(within_age) + len(recorded)
    assert sum(each.cents for each in recorded if each.recorded_s < reached_s) < limit_cents
