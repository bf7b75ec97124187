"""The sums of tools by day, of which targets are bounded."""

from collections import defaultdict
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from store import database
from store.traces.database import TraceDatabase
from store.traces.savings import tool_sums
from store.traces.savings.tool_sums import (
    MAX_TARGETS,
    OTHER,
    Payer,
    Target,
    TargetKey,
    Targets,
    TargetSums,
    ToolSums,
    change_targets,
)
from store.traces.savings.tools_reader import ToolFilter, ToolsReader
from store.traces.sums import histograms

DAY = "2026-01-02"


def write(traces, session_id, sums, **more):
    with database.immediate(traces.connection):
        tool_sums.write_session(
            traces.connection, session_id, DAY, sums, **({"has_costs": True} | more)
        )


def targets(count, session="s", slug="default", cents=1.0):
    payer = Payer(DAY, slug, "")
    return {
        (payer, Target("", "Read", f"/{session}/{n}")): ToolSums(
            uses=1, result_tokens=10, written_cents=cents, carried_cents=n / 1000
        )
        for n in range(count)
    }


def read(traces, columns="target, uses", table="tool_targets_daily"):
    rows = traces.connection.execute(f"select {columns} from {table}")  # noqa: S608 - a table
    return rows.fetchall()


def test_the_most_expensive_targets_of_a_day_are_named(traces):
    write(traces, "a", targets(MAX_TARGETS + 50, "a", cents=1.0))
    write(traces, "b", targets(MAX_TARGETS - 100, "b", cents=2.0))
    rows = dict(read(traces))
    assert len(rows) == MAX_TARGETS + 1
    assert rows.pop(OTHER) == 150
    assert sum(name.startswith("/b/") for name in rows) == MAX_TARGETS - 100
    assert f"/a/{MAX_TARGETS + 49}" in rows
    assert rows[f"/a/{MAX_TARGETS + 49}"] == 1
    ((uses, cents),) = read(traces, "sum(uses), sum(written_cents)")
    assert (uses, cents) == (350, MAX_TARGETS + 50 + 2 * (MAX_TARGETS - 100))


def test_others_stay_apart_by_endpoint(traces):
    write(traces, "a", targets(MAX_TARGETS, "a", slug="one", cents=9.0))
    write(traces, "b", targets(3, "b", slug="two"))
    assert read(traces, "slug, sessions, uses, target", "tool_targets_daily where tool = ''") == [
        ("two", 3, 3, OTHER)
    ]


def test_sums_of_days_lose_what_a_session_had(traces):
    write(traces, "a", targets(2, "a"))
    write(traces, "b", targets(3, "b"))
    assert read(traces, "uses, result_tokens", "tools_daily") == [(5, 50)]
    with database.immediate(traces.connection):
        tool_sums.remove_session(traces.connection, "a")
    assert read(traces, "uses, result_tokens", "tools_daily") == [(3, 30)]
    assert len(read(traces)) == 3
    write(traces, "b", {})
    assert read(traces, "*", "tools_daily") == read(traces) == []


def sized(*sizes, tool="Read", slug="default", credential=""):
    payer = Payer(DAY, slug, credential)
    sums = ToolSums(uses=len(sizes), result_tokens=sum(sizes), sizes=histograms.make(sizes))
    return {(payer, Target("", tool, "/a")): sums}


def read_sizes(traces, **filters):
    period = ToolFilter(first=date(2026, 1, 1), last=date(2026, 1, 31), **filters)
    tools = ToolsReader(traces.connection).list_tools(period)
    return {
        each.tool: (histograms.count(each.sums.sizes), each.sums.median_result_tokens)
        for each in tools
    }


def test_medians_are_those_of_the_results_of_all_sessions(traces):
    write(traces, "a", sized(10, 20, 3_000))
    write(traces, "b", sized(4_000, 5_000))
    write(traces, "c", sized(1, tool="Bash") | sized(7, slug="two", credential="x"))
    assert read_sizes(traces) == {
        "Read": (6, pytest.approx(20, rel=0.05)),
        "Bash": (1, 1),
    }
    assert read_sizes(traces, slug="two") == {"Read": (1, 7)}
    assert read_sizes(traces, credential="x") == {"Read": (1, 7)}
    assert read_sizes(traces, slug="two", credential="x") == {"Read": (1, 7)}
    assert read_sizes(traces, slug="default", credential="x") == {}
    write(traces, "b", sized(4_000, 5_000, 6_000, 7_000))
    assert read_sizes(traces)["Read"] == (8, pytest.approx(3_000, rel=0.05))


def test_sizes_leave_with_their_session(traces):
    write(traces, "a", sized(10, 20))
    write(traces, "b", sized(10, 4_000))
    with database.immediate(traces.connection):
        tool_sums.remove_session(traces.connection, "a")
    assert read_sizes(traces)["Read"][0] == 2
    write(traces, "b", {})
    assert read(traces, "*", "tool_sizes_daily") == []


def test_a_session_that_was_looked_at_before_sizes_were_kept_gets_them(traces):
    write(traces, "a", sized(10, 20))
    traces.connection.execute("update session_tools set result_sizes = x''")
    traces.connection.execute("delete from tool_sizes_daily")
    assert read_sizes(traces) == {"Read": (0, None)}
    write(traces, "a", sized(10, 20, 30))
    assert read_sizes(traces) == {"Read": (3, pytest.approx(20, rel=0.05))}


def test_sums_with_costs_are_kept_where_they_cannot_be_computed_again(traces):
    write(traces, "a", targets(2, "a"))
    write(traces, "a", targets(1, "a", cents=0.0), has_costs=False)
    assert read(traces, "uses", "tools_daily") == [(2,)]
    later = {(Payer("2026-01-03", "default", ""), Target("", "Read", "")): ToolSums(uses=1)}
    write(traces, "b", later, has_costs=False)
    write(traces, "b", later, has_costs=False)
    assert read(traces, "day, uses", "tools_daily") == [(DAY, 2), ("2026-01-03", 1)]


_KEYS = st.builds(
    TargetKey, st.sampled_from(["one", "two"]), st.just(""), st.just(""), st.just("Read"),
    st.sampled_from([f"/{n}" for n in range(9)]),
)  # fmt: skip
_SUMS = st.builds(
    TargetSums, st.just(1), st.integers(1, 9), st.integers(0, 9), st.integers(0, 99),
    st.integers(0, 9).map(float), st.integers(0, 9).map(float),
)  # fmt: skip
_SESSIONS = st.lists(st.dictionaries(_KEYS, _SUMS, max_size=6), max_size=6)


@given(_SESSIONS)
def test_sums_of_targets_are_those_of_sessions(sessions):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_sums, "MAX_TARGETS", 3)
        day: Targets = {}
        for each in sessions:
            change_targets(day, each)
    for place in range(6):
        expected = sum(sums[place] for each in sessions for sums in each.values())
        assert sum(sums[place] for sums in day.values()) == expected


@given(_SESSIONS)
def test_targets_that_have_room_leave_with_their_sessions(sessions):
    day: Targets = {}
    for each in sessions:
        change_targets(day, each)
    for each in sessions:
        change_targets(day, {}, each)
    assert day == {}


_LOOKS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.dictionaries(
            st.tuples(
                st.builds(Payer, st.sampled_from([DAY, "2026-01-03"]), st.just("one"), st.just("")),
                st.builds(Target, st.just(""), st.sampled_from(["Read", "Bash"]), st.sampled_from(["", "/1", "/2"])),
            ),
            st.builds(ToolSums, uses=st.integers(0, 2), result_tokens=st.integers(0, 9),
                      written_cents=st.integers(0, 3).map(float)),
            max_size=5,
        ),
    ),
    max_size=8,
)  # fmt: skip


@settings(max_examples=25)
@given(_LOOKS)
def test_sums_of_days_are_those_of_the_last_looks(looks):
    with TemporaryDirectory() as folder, TraceDatabase(Path(folder) / "traces.db") as traces:
        for session_id, sums in looks:
            write(traces, session_id, sums)
        tools: defaultdict[tuple[str, ...], complex] = defaultdict(complex)
        named: defaultdict[tuple[str, ...], complex] = defaultdict(complex)
        for sums in dict(looks).values():
            for (payer, target), each in sums.items():
                amount = complex(each.uses, each.written_cents)
                tools[payer.day, target.tool] += amount
                if target.target:
                    named[payer.day, target.tool, target.target] += amount
        found = read(traces, "day, tool, uses, written_cents", "tools_daily")
        assert {row[:2]: complex(*row[2:]) for row in found if any(row[2:])} == _drop_zeros(tools)
        found = read(traces, "day, tool, target, uses, written_cents")
        assert {row[:3]: complex(*row[3:]) for row in found if any(row[3:])} == _drop_zeros(named)


def _drop_zeros(sums):
    return {key: amount for key, amount in sums.items() if amount}


def test_a_look_that_changes_nothing_writes_nothing(traces):
    write(traces, "a", targets(3, "a"))
    before = traces.connection.total_changes
    write(traces, "a", targets(3, "a"))
    assert traces.connection.total_changes == before
