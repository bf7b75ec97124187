"""The figures of budgets, from the databases to what proxies refuse."""

import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import accumulate, count

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from addon.budgets import Budgets
from addon.periodic_tasks import TICK_S
from metering.attribution import Part
from metering.budget_periods import find_span
from recorder.budgets import LOOK_S, BudgetWatch
from recorder.calls_in_flight import CallsInFlight
from runtime import clock
from store.budget_file import BudgetFile
from store.control.database import ControlDatabase
from store.price_file import load_prices
from store.spool.format import Ending
from store.spool.writer import SpoolFile, SpoolRun
from store.traces.calls.costs import NewCost
from store.traces.paths import trace_path
from tests.recorder.streams import begin_stream
from tests.store.traffic import make_entry

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def ci(management, ann):
    return management.create_endpoint(ann, "CI", "ci")


@pytest.fixture
def in_flight(tmp_path):
    return CallsInFlight(tmp_path / "spool", load_prices)


@pytest.fixture
def make_watch(tmp_path, times, in_flight):
    watches = []

    def make():
        watches.append(
            BudgetWatch(
                tmp_path,
                tmp_path / "control.db",
                in_flight,
                lambda: times.elapsed_s,
                lambda: times.now,
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
def look(watch, times, tmp_path):
    """Look again; returns the ids of what is used up."""

    def look():
        times.advance(LOOK_S)
        watch.look()
        return [each.subject_id for each in BudgetFile(tmp_path).read()]

    return look


def set_budget(management, caller, endpoint="ci", limit_usd=1.0, period="day", action="refuse"):
    management.budgets.put(caller, endpoint, period=period, limit_usd=limit_usd, action=action)


def make_call(endpoint_id, cents, at=NOON):
    return make_entry(
        proxy_endpoint_id=endpoint_id,
        created_at=clock.format_ms(at),
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


def test_a_week_is_refused_until_monday_and_a_part_never(look, management, ann, ci, traces, times):
    set_budget(management, ann, period="week")
    management.budgets.put(
        ann, "ci", period="day", limit_usd=0.01, action="warn", of=Part("project", "shop")
    )
    assert NOON.weekday() == 6
    traces.insert([make_call(ci.id, 60, NOON - timedelta(days=6)), make_call(ci.id, 40)])
    assert look() == [ci.id]
    traces.insert([replace(make_call(ci.id, 5), project="shop")])
    times.now = NOON + timedelta(hours=12)
    assert look() == []


def test_a_part_is_reported_like_any_other(look, management, ann, ci, traces, control):
    management.budgets.put(
        ann, None, period="day", limit_usd=1, action="warn", of=Part("project", "shop")
    )
    traces.insert([make_call(ci.id, 90)])
    look()
    assert list_alerts(control) == []
    traces.insert([replace(make_call(ci.id, 90), project="shop")])
    look()
    look()
    assert list_alerts(control) == [(None, 80)]


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


def test_the_next_day_begins_anew_in_the_time_zone(look, management, ann, ci, traces, times):
    management.budgets.set_time_zone(ann, "Asia/Kolkata")
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 100)])
    assert look() == [ci.id]
    times.now = NOON.replace(hour=18, minute=29, second=59)
    assert look() == [ci.id]
    times.now = NOON.replace(hour=18, minute=30)
    assert look() == []


def test_a_clock_that_is_set_is_followed_both_ways(look, management, ann, ci, traces, times):
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 100)])
    assert look() == [ci.id]
    times.now = NOON + timedelta(days=40)
    assert look() == []
    times.now = NOON
    assert look() == [ci.id]
    times.now = NOON - timedelta(days=1)
    assert look() == []


def test_a_recorder_that_starts_again_finds_the_same(
    look, make_watch, management, ann, ci, traces, times, tmp_path, control
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


def test_calls_in_flight_count_with_their_input(look, management, ann, ci, traces, tmp_path):
    set_budget(management, ann, limit_usd=1.0)
    traces.insert([make_call(ci.id, 90)])
    run = SpoolRun(tmp_path / "spool")
    file = begin_stream(run, "a", ann.organization_id, ci.id, clock.format_ms(NOON), 10_000)
    assert look() == []  # 4 cents more
    other = begin_stream(run, "b", ann.organization_id, ci.id, clock.format_ms(NOON), 20_000)
    assert look() == [ci.id]
    for each in (file, other):
        each.finish(Ending(outcome="complete"), 5.0)
    assert look() == []  # until the recorder has stored them
    run.close()


def test_nothing_is_read_again_while_nothing_changes(
    look, management, ann, ci, traces, monkeypatch
):
    set_budget(management, ann)
    traces.insert([make_call(ci.id, 10)])
    look()
    monkeypatch.setattr("recorder.budgets.spend.read_spends", lambda *_: pytest.fail("read again"))
    look()


def test_a_look_that_took_long_is_followed_by_a_longer_pause(
    watch, management, ann, ci, traces, times, monkeypatch
):
    set_budget(management, ann)
    looks = []

    def find_slowly(*arguments):
        looks.append(times.elapsed_s)
        times.advance(1)
        return find_span(*arguments)

    monkeypatch.setattr("recorder.budgets.find_span", find_slowly)
    watch.look()
    times.advance(9)
    traces.insert([make_call(ci.id, 10)])
    watch.look()
    assert len(looks) == 1
    times.advance(1)
    watch.look()
    assert len(looks) == 2


def test_without_a_control_database_there_is_nothing_to_watch(tmp_path, in_flight):
    BudgetWatch(tmp_path, tmp_path / "control.db", in_flight, lambda: 1.0).look()
    assert not (tmp_path / "budgets.json").exists()


# -- the overshoot ---------------------------------------------------------------------------------


@dataclass
class Flight:
    """A call that was let through: when it began, when it is recorded, and its cents: all, and those of
    its input."""

    began_s: float
    recorded_s: float
    cents: int
    input_cents: int
    file: SpoolFile


@dataclass
class Story:
    """The calls that were let through, when the limit was reached, and at each refusal the cents that had
    been spent, with the input of calls in flight."""

    flights: list[Flight] = field(default_factory=list)
    reached_s: float | None = None
    refused_at_cents: list[int] = field(default_factory=list)

    def find_spent(self, now_s):
        return sum(
            each.cents if each.recorded_s <= now_s else each.input_cents for each in self.flights
        )


STEP_S = 0.125
TOKENS_PER_CENT = 2_500


@pytest.fixture
def simulate(management, ann, traces, watch, times, tmp_path):
    """Lets calls come, one after the other or at the same time, and returns their story."""
    run = SpoolRun(tmp_path / "spool")

    def play(limit_cents, calls):
        endpoint = management.create_endpoint(ann, "CI")
        set_budget(management, ann, endpoint.id, limit_cents / 100)
        times.advance(LOOK_S)
        watch.look()
        proxy = Budgets(BudgetFile(tmp_path), lambda _: None, lambda: times.now.timestamp())
        arrivals = list(zip(accumulate(each[0] for each in calls), calls, strict=True))
        story = Story()
        for step in count():
            now_s, at = times.elapsed_s, clock.format_ms(times.now)
            due = [each for each in story.flights if now_s - STEP_S < each.recorded_s <= now_s]
            for each in due:
                each.file.discard()
            if due:
                traces.insert([make_call(endpoint.id, each.cents, times.now) for each in due])
            watch.look()
            if step % 2:
                proxy.refresh()
            while arrivals and arrivals[0][0] <= step:
                _, (_, length, cents, share) = arrivals.pop(0)
                if proxy.admit(endpoint) is None:
                    input_cents = cents * share // 4
                    file = begin_stream(
                        run,
                        clock.new_id(),
                        ann.organization_id,
                        endpoint.id,
                        at,
                        TOKENS_PER_CENT * input_cents,
                    )
                    ends_s = now_s + (1 + length) * STEP_S
                    story.flights.append(Flight(now_s, ends_s, cents, input_cents, file))
                else:
                    story.refused_at_cents.append(story.find_spent(now_s))
            if story.reached_s is None and story.find_spent(now_s) >= limit_cents:
                story.reached_s = now_s
            if not arrivals and all(each.recorded_s <= now_s for each in story.flights):
                return story
            times.advance(STEP_S)
        raise AssertionError

    yield play
    run.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    limit_cents=st.integers(1, 40),
    calls=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 40), st.integers(0, 10), st.integers(0, 4)),
        min_size=1,
        max_size=40,
    ),
)
@pytest.mark.slow
def test_calls_are_refused_at_the_limit_and_let_through_no_more_than_is_stated(
    simulate, limit_cents, calls
):
    """Each call comes so many eighths of a second after the one before, is recorded so many after it
    came, and costs so many cents, of which so many quarters for its input. docs/budgets.md states what
    is let through: what began within the age of a figure after the limit was reached, and not later."""
    story = simulate(limit_cents, calls)
    assert all(cents >= limit_cents for cents in story.refused_at_cents)
    if story.reached_s is None:
        assert story.refused_at_cents == []
        return
    age_s = LOOK_S + TICK_S
    assert all(each.began_s <= story.reached_s + age_s for each in story.flights)
    recorded = [each for each in story.flights if each.recorded_s < story.reached_s]
    assert sum(each.cents for each in recorded) < limit_cents
