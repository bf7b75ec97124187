"""The comparison of copies and the limit over nodes find faults that are planted."""

import pytest

from extensions.cluster.tests.crashes.judging import (
    COMPARED,
    LIMIT,
    Away,
    find_differences,
    find_excess,
    join,
)
from tests.faults.oracle import Verdict

ROW = dict.fromkeys(COMPARED, "same") | {"outcome": "complete"}


def test_copies_that_are_the_same_have_no_differences():
    assert find_differences([ROW], [dict(ROW)]) == []


def test_a_row_that_one_copy_lacks_is_found():
    other = ROW | {"entry_id": "other"}
    assert find_differences([ROW, other], [ROW]) == ["other is in one copy only"]


@pytest.mark.parametrize("name", ["request_body", "cost_cents"])
def test_a_value_that_differs_is_found(name):
    assert find_differences([ROW], [ROW | {name: "other"}]) == [f"same differs in {name}"]


def test_the_estimated_cost_of_a_response_that_was_cut_may_differ():
    cut = ROW | {"outcome": "proxy_restarted"}
    assert find_differences([cut], [cut | {"cost_cents": "other"}]) == []


@pytest.mark.parametrize(
    ("count", "within_s", "spans", "expected"),
    [
        (LIMIT, 10, [], 0),
        (LIMIT + 2, 10, [], 2),
        (2 * LIMIT, 240, [], 0),
        (LIMIT + 2, 10, [(0, 6)], 0),
        (3 * LIMIT + 1, 10, [(0, 6)], 1),
        (LIMIT + 2, 10, [(11, 12)], 2),
        (LIMIT + 2, 10, [(-100, -90)], 2),
        (LIMIT + 2, 10, [(-50, -40)], 0),
    ],
)
def test_more_than_the_limit_is_found_unless_nodes_had_to_limit_by_themselves(
    count, within_s, spans, expected
):
    times_s = [within_s * number / count for number in range(count)]
    assert find_excess(times_s, Away(3, spans)) == expected


def test_what_is_lost_in_one_copy_is_lost():
    one = Verdict(lost=[1], wrong=["a"], details={1: "no row"})
    other = Verdict(lost=[1, 2], double=[3], wrong=["a"], details={3: "two rows"})
    joined = join([one, other])
    assert (joined.lost, joined.double, joined.wrong) == ([1, 2], [3], ["a"])
    assert joined.details == {1: "no row", 3: "two rows"}
