import multiprocessing
import os
import random
import sqlite3
from contextlib import closing
from decimal import Decimal

import pytest

from metering.token_counts import NAMES
from store.traces import rebooking
from store.traces.backfill_progress import HOURLY_SUMS, find_next
from store.traces.calls.costs import NewCost
from store.traces.database import TraceDatabase
from store.traces.rebooking import rebook_some
from tests.store.dying import die_after
from tests.store.traces.sums.test_rollup import dump, make_any, make_pass
from tests.store.traffic import make_entry


def book_as_before(path):
    """Take the sums of a database back to those before they had passes, in the schema of that time."""
    tokens = ", ".join(f"coalesce(sum({name}), 0)" for name in NAMES)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("drop view usage_days")
        connection.execute("drop table usage_hourly")
        connection.execute(
            """
            create table usage_hourly (
                hour text not null, proxy_endpoint_id text not null, slug text not null,
                model text not null, entries integer not null, errors integer not null,
                unpriced integer not null, timed integer not null, input_tokens integer not null,
                output_tokens integer not null, cache_creation_input_tokens integer not null,
                cache_read_input_tokens integer not null, cost_cents real not null,
                duration_ms real not null, estimated_cents real not null default 0,
                maybe_billed integer not null default 0,
                primary key (hour, proxy_endpoint_id, slug, model)
            ) without rowid
            """
        )
        connection.execute(
            f"insert into usage_hourly"  # noqa: S608
            " select substr(created_at, 1, 13), proxy_endpoint_id, slug, coalesce(model, ''),"
            " count(*), sum(outcome not in ('complete', 'client_disconnected')),"
            " sum(cost_cents is null and usage_source <> 'none'), count(duration_ms),"
            f" {tokens}, total(cost_cents), total(duration_ms), 0, 0"
            " from usage group by 1, 2, 3, 4"
        )
        connection.execute("delete from backfills")
        connection.execute("delete from _sqlite_migrations where name like 'm009%'")


@pytest.fixture
def make_pair(tmp_path):
    """Makes a database whose sums are as before, and one in which the calls were booked by pass."""

    def make(entries):
        paths = [tmp_path / name / "traces.db" for name in ("before", "now")]
        for path in paths:
            with TraceDatabase(path) as traces:
                traces.insert(entries)
        book_as_before(paths[0])
        return paths

    return make


def make_entries(count=60, seed=1):
    rng = random.Random(seed)  # noqa: S311
    return [make_any(rng) for _ in range(count)]


def count_calls(connection):
    return connection.execute("select sum(entries), sum(duration_ms) from usage_hourly").fetchone()


def read_sums(path):
    with closing(sqlite3.connect(path)) as connection:
        return dump(connection)


@pytest.fixture
def small_steps(monkeypatch):
    monkeypatch.setattr(rebooking, "CALLS", 7)


def run(path):
    with TraceDatabase(path) as traces:
        while rebook_some(traces.connection):
            pass


@pytest.mark.parametrize("count", [1, 7, 60])
@pytest.mark.usefixtures("small_steps")
def test_earlier_sums_become_those_of_the_passes(make_pair, count):
    before, now = make_pair(make_entries(count))
    TraceDatabase(before).close()
    assert read_sums(before) != read_sums(now)
    run(before)
    assert read_sums(before) == read_sums(now)
    with TraceDatabase(before) as traces:
        assert traces.connection.execute("select * from backfills").fetchall() == []
        assert not rebook_some(traces.connection)


def test_the_migration_keeps_the_sums_as_they_were(make_pair):
    before, _ = make_pair(make_entries())
    columns = "hour, proxy_endpoint_id, slug, model, entries, input_tokens, cost_cents, duration_ms"
    query = f"select {columns} from usage_hourly order by 1, 2, 3, 4"  # noqa: S608
    with closing(sqlite3.connect(before)) as connection:
        expected = connection.execute(query).fetchall()
    with TraceDatabase(before) as traces:
        assert traces.connection.execute(query).fetchall() == expected
        assert find_next(traces.connection, HOURLY_SUMS) == 60


@pytest.mark.usefixtures("small_steps")
def test_each_call_is_counted_once_at_any_moment(make_pair):
    before, _ = make_pair(make_entries())
    steps = 0
    with TraceDatabase(before) as traces, closing(sqlite3.connect(before)) as reader:
        expected = tuple(map(pytest.approx, count_calls(reader)))
        while rebook_some(traces.connection):
            steps += 1
            assert count_calls(reader) == expected
    assert steps == 8


@pytest.mark.usefixtures("small_steps")
def test_calls_and_costs_that_come_meanwhile_are_booked_once(make_pair):
    """They are of calls that are booked anew, and of such that are not yet."""
    entries = make_entries()
    pair = make_pair(entries)
    items = make_pass("claude-opus-5", rate="7")
    for path in pair:
        with TraceDatabase(path) as traces:
            for _ in range(4):
                rebook_some(traces.connection)
            traces.insert([make_entry(entry_id="new", client="tool/1")])
            costs = [
                NewCost(usage_id=usage_id, cost_cents=Decimal("0.105"), cost_items=items)
                for usage_id in (1, 5, 30, 59, 61)
            ]
            assert traces.update_costs(costs) == 5
        run(path)
    assert read_sums(pair[0]) == read_sums(pair[1])


@pytest.mark.usefixtures("small_steps")
def test_what_retention_has_removed_stays_in_the_sums_as_it_was(make_pair):
    entries = [
        make_entry(entry_id=str(n), client="tool/1", cost_items=make_pass("advisor"), cost_cents=Decimal("0.03"))
        for n in range(20)
    ]  # fmt: skip
    before, _ = make_pair(entries)
    with TraceDatabase(before) as traces:
        rebook_some(traces.connection)
        traces.prune(before=entries[5].created_at, pause=lambda _: None)
    run(before)
    with closing(sqlite3.connect(before)) as connection:
        rows = connection.execute(
            "select model, client, sum(entries), sum(input_tokens), round(sum(cost_cents), 9)"
            " from usage_hourly group by 1, 2 order by 1, 2"
        ).fetchall()
    assert rows == [
        ("advisor", "tool", 0, 1500, 0.45),
        ("claude-sonnet-4-5", "", 5, 50, 0.15),
        ("claude-sonnet-4-5", "tool", 15, 0, 0.0),
    ]


def die_in_the_middle(path, statements):
    rebooking.CALLS = 7
    with TraceDatabase(path) as traces:
        die_after(traces.connection, statements)
        while rebook_some(traces.connection):
            pass
    os._exit(0)


@pytest.mark.slow
@pytest.mark.parametrize("statements", [3, 20, 75])
def test_a_process_killed_in_the_middle_repeats_nothing(make_pair, statements):
    before, now = make_pair(make_entries())
    process = multiprocessing.get_context("spawn").Process(
        target=die_in_the_middle, args=(before, statements)
    )
    process.start()
    process.join()
    assert process.exitcode == 9
    with TraceDatabase(before) as traces:
        assert find_next(traces.connection, HOURLY_SUMS) is not None
    run(before)
    assert read_sums(before) == read_sums(now)
