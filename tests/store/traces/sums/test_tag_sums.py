"""Users, projects and tags of calls, and their hourly sums, against SQL over the calls."""

import random
from decimal import Decimal

import pytest

from metering.attribution import write_tags
from store.traces import steps
from store.traces.calls.costs import NewCost
from store.traces.maintenance.criteria import Criteria
from store.traces.sums import tag_sums
from store.traces.sums.rollup import OTHER
from tests.store.traffic import make_entry, make_item

SUMS = (
    "select hour, name, value, entries, errors, unpriced, maybe_billed, input_tokens, output_tokens,"
    " cache_creation_input_tokens, cache_read_input_tokens, unbilled_tokens, unpriced_tokens,"
    " round(cost_cents, 6), round(estimated_cents, 6), round(value_cents, 6)"
    " from tags_hourly order by 1, 2, 3"
)
# The sums of the same calls that are kept without tags, which other tests compare with the calls.
SUMS_OF_HOURS = (
    "select sum(entries), sum(errors), sum(unpriced), sum(maybe_billed), sum(input_tokens),"
    " sum(output_tokens), sum(cache_creation_input_tokens), sum(cache_read_input_tokens),"
    " sum(unbilled_tokens), sum(unpriced_tokens), round(sum(cost_cents), 6),"
    " round(sum(estimated_cents), 6),"
    " round(total(case when billing in ('subscription', 'customer') then cost_cents end), 6)"
    " from usage_hourly group by hour order by hour"
)


def make_any(dice, **changes):
    source = dice.choice(["final", "estimated", "none"])
    cents = None if source == "none" else dice.choice([None, Decimal("0.5")])
    return make_entry(
        created_at=f"2026-01-02T{dice.randrange(3):02}:10:00.000Z",
        model=dice.choice([None, "m", "n"]),
        outcome=dice.choice(["complete", "upstream_error", "client_disconnected"]),
        status_code=dice.choice([200, 500]),
        usage_source=source,
        cost_cents=cents,
        estimated_cents=Decimal("0.25") if cents and source == "estimated" else None,
        billing=dice.choice([None, "api_key", "subscription", "customer"]),
        overage=dice.choice([None, False, True]),
        **changes,
    )


def read_tags(traces):
    return traces.connection.execute(
        "select u.entry_id, t.name, t.value from tags as t join usage as u on u.id = t.usage_id"
        " order by 1, 2, 3"
    ).fetchall()


def read_names(traces):
    rows = traces.connection.execute(
        "select name, value, sum(entries) from tags_hourly group by 1, 2 order by 1, 2"
    )
    return [tuple(row) for row in rows]


def test_a_call_has_a_row_for_its_user_its_project_and_each_tag(traces):
    traces.insert(
        [
            make_entry(
                entry_id="a",
                attributed_user="Ann",
                project="shop",
                tags=write_tags(["env:prod", "nightly"]),
            ),
            make_entry(entry_id="b"),
        ]
    )
    assert read_tags(traces) == [
        ("a", "env", "prod"),
        ("a", "nightly", ""),
        ("a", "project", "shop"),
        ("a", "user", "Ann"),
    ]
    assert read_names(traces) == [
        ("env", "prod", 1),
        ("nightly", "", 1),
        ("project", "shop", 1),
        ("user", "Ann", 1),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_sums_by_a_tag_that_every_call_has_are_those_of_all_calls(traces, seed):
    dice = random.Random(seed)  # noqa: S311
    calls = [make_any(dice, project="shop") for _ in range(60)]
    for start in range(0, 60, 20):
        traces.insert(calls[start : start + 20])
    traces.insert(calls[:5])  # again, which changes nothing

    def compare():
        by_tag = [tuple(row[3:]) for row in traces.connection.execute(SUMS)]
        assert by_tag == [tuple(row) for row in traces.connection.execute(SUMS_OF_HOURS)]

    compare()
    stored = traces.connection.execute("select id from usage").fetchall()
    traces.update_costs(
        [
            NewCost(
                usage_id=usage_id,
                cost_cents=Decimal("2.5"),
                cost_items=(make_item(cents=Decimal("2.5"), quantity=7),),
            )
            for (usage_id,) in stored[::2]
        ]
    )
    compare()


def test_an_hour_has_a_bounded_number_of_names_and_values(traces, monkeypatch):
    monkeypatch.setattr(tag_sums, "MAX_NAMES", 2)
    monkeypatch.setattr(tag_sums, "MAX_VALUES", 3)
    for number in range(5):
        traces.insert(
            [
                make_entry(project=f"p{number}", tags=write_tags([f"env:e{number}", f"t{number}"]))
                for _ in range(2)
            ]
        )
    names = read_names(traces)
    assert [row for row in names if row[0] == "project"] == [
        ("project", OTHER, 4), ("project", "p0", 2), ("project", "p1", 2), ("project", "p2", 2),
    ]  # fmt: skip
    assert {name for name, _, _ in names} == {"project", "env", "t0", OTHER}
    assert (OTHER, "", 8) in names
    assert len(read_tags(traces)) == 30  # the calls themselves have all of theirs


def test_what_was_booked_to_others_is_taken_out_there(traces, monkeypatch):
    monkeypatch.setattr(tag_sums, "MAX_VALUES", 1)
    traces.insert([make_entry(project="a"), make_entry(project="b", cost_cents=Decimal(1))])
    traces.update_costs(
        [NewCost(usage_id=2, cost_cents=Decimal(3), cost_items=(make_item(cents=Decimal(3)),))]
    )
    rows = traces.connection.execute(
        "select value, entries, cost_cents from tags_hourly order by 1"
    ).fetchall()
    assert rows == [(OTHER, 1, 3.0), ("a", 1, 1.25)]


def test_sums_stay_when_calls_are_pruned_and_go_when_the_last_call_of_a_name_is_erased(traces):
    days = [f"2026-01-{day:02}T00:00:00.000Z" for day in (1, 2, 3)]
    traces.insert(
        [
            make_entry(created_at=days[0], project="old", slug="keep"),
            make_entry(created_at=days[1], project="kept", slug="erase"),
            make_entry(created_at=days[1], project="gone", attributed_user="Ann", slug="erase"),
            make_entry(created_at=days[2], project="kept", slug="keep"),
        ]
    )
    traces.prune(before=days[1], pause=lambda _s: None)
    assert [value for _, _, value in read_tags(traces)].count("old") == 0
    assert ("project", "old", 1) in read_names(traces)
    steps.run(traces.erase_in_steps("e", Criteria(endpoint="erase")), lambda _s: None)
    assert [(name, value) for _, name, value in read_tags(traces)] == [("project", "kept")]
    assert read_names(traces) == [("project", "kept", 2), ("project", "old", 1)]
    (entries,) = traces.connection.execute("select sum(entries) from usage_hourly").fetchone()
    assert entries == 4
