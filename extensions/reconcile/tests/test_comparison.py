"""Both sides of a comparison add up, and a difference has the causes that the figures suggest."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import add

import pytest
from hypothesis import given, strategies as st

from extensions.reconcile.causes import (
    CAUSES,
    describe_kind,
    format_cause,
    get_explanation,
    get_title,
)
from extensions.reconcile.comparison import (
    NOTHING,
    TOKENS,
    WEB_SEARCH,
    CallCounts,
    Cause,
    Figures,
    Recorded,
    Reported,
    compare,
)
from metering.token_counts import NAMES, TokenCounts

DAY = date(2026, 1, 2)
LATER = date(2026, 2, 1)
KINDS = [TOKENS, WEB_SEARCH, "code_execution"]


def figures(cents="0", searches=0, **tokens):
    return Figures(
        tokens=TokenCounts(**(dict.fromkeys(NAMES, 0) | tokens)),
        web_search_requests=searches,
        cost_cents=Decimal(cents),
    )


def reported(cents="0", *, kind=TOKENS, model="m", tier="standard", searches=0, **tokens):
    return Reported(
        day=DAY,
        kind=kind,
        model=model,
        figures=figures(cents, searches, **tokens),
        service_tier=tier,
    )


def recorded(
    cents="0", *, kind=TOKENS, model="m", searches=0, counts=None, is_batch=False, **tokens
):
    return Recorded(
        is_batch=is_batch,
        day=DAY,
        kind=kind,
        model=model,
        figures=figures(cents, searches, **tokens),
        counts=counts or CallCounts(calls=1),
    )


def find_causes(theirs, ours, open_day=LATER):
    (row,) = compare(theirs, ours, open_day=open_day).rows
    return [cause.name for cause in row.causes]


amounts = st.decimals(min_value=-10_000, max_value=10_000, places=6)
some_figures = st.builds(
    Figures,
    tokens=st.builds(TokenCounts, *[st.none() | st.integers(0, 10**9) for _ in NAMES]),
    web_search_requests=st.integers(0, 1000),
    cost_cents=amounts,
)
places = {
    "day": st.dates(date(2026, 1, 1), date(2026, 1, 3)),
    "kind": st.sampled_from(KINDS),
    "model": st.sampled_from(["a", "b", None]),
    "figures": some_figures,
    "workspace_id": st.sampled_from(["w1", "w2", None]),
}
all_reported = st.lists(
    st.builds(
        Reported,
        **places,
        api_key_id=st.sampled_from(["k1", "k2", None]),
        service_tier=st.sampled_from(["standard", "batch", "priority", "flex", None]),
    ),
    max_size=8,
)
all_recorded = st.lists(
    st.builds(Recorded, **places, counts=st.builds(CallCounts, unpriced=st.integers(0, 3))),
    max_size=8,
)


def total(items):
    return reduce(add, items, NOTHING)


def values(figures):
    """None and 0 tokens are the same here."""
    counts = [getattr(figures.tokens, name) or 0 for name in NAMES]
    return (*counts, figures.web_search_requests, figures.cost_cents)


@given(all_reported, all_recorded, st.randoms(use_true_random=False))
def test_the_differences_of_the_rows_are_the_difference_of_the_sums(theirs, ours, rng):
    found = compare(theirs, ours, open_day=DAY)
    assert values(found.difference) == values(
        total(item.figures for item in theirs) - total(item.figures for item in ours)
    )
    assert values(total(row.difference for row in found.rows)) == values(found.difference)
    assert values(total(row.reported for row in found.rows)) == values(found.reported)
    assert values(total(row.recorded for row in found.rows)) == values(found.recorded)
    assert values(total(each.reported for each in found.workspaces)) == values(found.reported)
    rng.shuffle(theirs)
    rng.shuffle(ours)
    assert [values(row.difference) for row in compare(theirs, ours, open_day=DAY).rows] == [
        values(row.difference) for row in found.rows
    ]


@given(all_reported, all_recorded)
def test_a_row_is_one_day_kind_and_model_and_has_causes_only_when_it_differs(theirs, ours):
    rows = compare(theirs, ours, open_day=DAY).rows
    keys = [(row.day, row.kind, row.model) for row in rows]
    assert len(set(keys)) == len(keys)
    assert set(keys) <= {(item.day, item.kind, item.model) for item in (*theirs, *ours)}
    for row in rows:
        assert bool(row.causes) == (not row.difference.is_negligible)
        assert {cause.name for cause in row.causes} <= CAUSES.keys()


@given(all_reported)
def test_what_is_compared_with_itself_agrees(theirs):
    ours = [
        Recorded(day=item.day, kind=item.kind, model=item.model, figures=item.figures)
        for item in theirs
    ]
    assert all(row.difference.is_negligible for row in compare(theirs, ours, open_day=DAY).rows)


@given(all_reported)
def test_all_counts_are_in_the_list_of_keys(theirs):
    listed = total(each.reported for each in compare(theirs, [], open_day=DAY).keys)
    counted = total(item.figures for item in theirs if item.figures.has_counts)
    assert values(listed) == values(counted)


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ([reported("5", input_tokens=7)], [recorded("5", input_tokens=7)], []),
        ([reported("5.004", input_tokens=7)], [recorded("5", input_tokens=7)], []),
        ([reported("4", input_tokens=7)], [recorded("5", input_tokens=7)], ["prices"]),
        ([reported("5", input_tokens=9)], [recorded("4", input_tokens=7)], ["not_proxied"]),
        ([reported("5", input_tokens=9)], [], ["not_proxied"]),
        ([], [recorded("5", input_tokens=9)], ["not_reported"]),
        (
            [reported("5", input_tokens=9)],
            [recorded("5", output_tokens=9)],
            ["not_proxied", "not_reported"],
        ),
        (
            [reported("5", input_tokens=7), reported("2", input_tokens=3, tier="batch")],
            [recorded("5", input_tokens=7)],
            ["batches"],
        ),
        (
            [reported("5", input_tokens=7), reported("2", input_tokens=3, tier="batch")],
            [recorded("9", input_tokens=7)],
            ["batches", "prices"],
        ),
        ([reported(input_tokens=7, tier="priority")], [recorded("5", input_tokens=7)], ["priority_tier"]),
        (
            [reported(input_tokens=7, tier="priority_on_demand")],
            [recorded("5", input_tokens=7)],
            ["priority_tier"],
        ),
        ([reported("3", input_tokens=7, tier="flex")], [recorded("5", input_tokens=7)], ["other_tier"]),
        (
            [reported("5", input_tokens=7)],
            [recorded(input_tokens=7, counts=CallCounts(calls=2, unpriced=2))],
            ["unpriced"],
        ),
        (
            [reported("5", output_tokens=7)],
            [recorded("4", output_tokens=6, counts=CallCounts(calls=1, estimated=1, cut=1))],
            ["estimates", "cut_streams", "not_proxied"],
        ),
        (
            [reported("5", output_tokens=7)],
            [recorded("4", output_tokens=7, counts=CallCounts(calls=1, estimated=1))],
            ["prices"],
        ),
        (
            [reported("5", input_tokens=7)],
            [recorded("0", counts=CallCounts(calls=1, no_response=1))],
            ["no_response", "not_proxied"],
        ),
        (
            [reported("0", input_tokens=7)],
            [recorded("0", input_tokens=8, counts=CallCounts(calls=1, not_billed=1))],
            ["not_billed", "not_reported"],
        ),
        (
            [reported("2", kind=WEB_SEARCH, model=None, searches=2)],
            [recorded("1", kind=WEB_SEARCH, model=None, searches=1)],
            ["not_proxied"],
        ),
        ([reported("2", kind="code_execution", model=None)], [], ["not_in_responses"]),
    ],
)  # fmt: skip
def test_causes_are_what_the_figures_suggest(theirs, ours, expected):
    assert find_causes(theirs, ours) == expected


def test_a_day_that_is_not_over_may_still_change():
    theirs, ours = [reported("5", input_tokens=9)], [recorded("4", input_tokens=7)]
    assert find_causes(theirs, ours, open_day=DAY) == ["not_proxied", "in_flight"]
    assert find_causes(theirs, [recorded("5", input_tokens=9)], open_day=DAY) == []


@pytest.mark.parametrize(
    ("theirs", "ours", "causes"),
    [
        (("2", 10), ("2", 10), []),
        (("2", 10), ("0.5", 4), ["batches"]),
        (("2", 10), ("3", 10), ["prices"]),
        (("2", 10), ("3", 12), ["not_reported"]),
        (("0", 0), ("2", 10), ["not_reported"]),
    ],
)
def test_of_batches_whose_results_are_recorded_the_rest_is_explained(theirs, ours, causes):
    (cents, tokens), (our_cents, our_tokens) = theirs, ours
    items = [
        reported("5", output_tokens=7),
        reported(cents, tier="batch", output_tokens=tokens),
    ]
    found = compare(
        items,
        [
            recorded("5", output_tokens=7),
            recorded(our_cents, is_batch=True, output_tokens=our_tokens),
        ],
        open_day=LATER,
    )
    assert [cause.name for row in found.rows for cause in row.causes] == causes


def test_the_figures_of_batches_are_those_of_the_report():
    theirs = [
        reported("2.5", tier="batch"),
        reported(input_tokens=300, output_tokens=20, tier="batch"),
        reported(input_tokens=5),
    ]
    (row,) = compare(theirs, [], open_day=LATER).rows
    assert row.causes == (
        Cause(name="batches", tokens=320, cost_cents=Decimal("2.5")),
        Cause(name="not_proxied", tokens=5),
    )


def test_calls_without_tokens_and_cost_are_no_row():
    assert compare([], [recorded()], open_day=LATER).rows == ()
    assert compare([reported("1"), reported("-1")], [], open_day=LATER).rows == ()
    assert len(compare([reported("1")], [recorded("1")], open_day=LATER).rows) == 1


def test_workspaces_of_recorded_calls_are_shown_where_they_are_known():
    theirs = [
        replace(reported("5", input_tokens=9), workspace_id="w1"),
        reported("3", input_tokens=9),
    ]
    ours = [
        replace(recorded("4", input_tokens=9), workspace_id="w1"),
        replace(recorded("1", input_tokens=9), workspace_id="w9"),
        recorded("2", input_tokens=9),
    ]
    found = compare(theirs, ours, open_day=LATER).workspaces
    assert [
        (each.workspace_id, each.reported.cost_cents, each.recorded is not None) for each in found
    ] == [
        ("w1", Decimal(5), True),
        (None, Decimal(3), False),
        ("w9", Decimal(0), True),
    ]


def test_rows_are_newest_first_and_then_by_their_difference():
    theirs = [
        reported("1", model="small"),
        reported("9", model="large"),
        replace(reported("1", model="old"), day=date(2026, 1, 1)),
    ]
    rows = compare(theirs, [], open_day=LATER).rows
    assert [row.model for row in rows] == ["large", "small", "old"]


def test_causes_are_written_with_what_is_known_of_them():
    assert format_cause(Cause(name="in_flight")) == "day not over"
    assert format_cause(Cause(name="unpriced", calls=1)) == "no known price (1 call)"
    cause = Cause(name="batches", tokens=1_200, cost_cents=Decimal("50"))
    assert format_cause(cause) == "batches (1,200 tokens, $0.5000)"


def test_a_cause_or_kind_of_another_version_is_shown_by_its_name():
    assert (get_title("new"), get_explanation("new"), describe_kind("new")) == ("new", "", "new")
