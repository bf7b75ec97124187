"""The shares at which the use of a budget is reported."""

import pytest

from metering.budget_shares import check_shares, find_percent, pack_shares, unpack_shares


@pytest.mark.parametrize("shares", [(), (0.5,), (0.0001, 0.3333, 1.0)])
def test_what_is_stored_is_read_back(shares):
    assert unpack_shares(pack_shares(check_shares(shares))) == shares


def test_shares_are_in_order_and_unique():
    assert check_shares([0.9, 0.5, 0.9, 0.90001]) == (0.5, 0.9)
    assert unpack_shares(None) == (0.8,)


@pytest.mark.parametrize("stored", ["", "x", "-", "nan,inf", ",,"])
def test_what_is_no_share_is_left_out(stored):
    assert unpack_shares(stored) == ()


@pytest.mark.parametrize(
    ("spent", "percent"),
    [(0.0, None), (0.0499, None), (0.05, 50), (0.0899, 50), (0.09, 90), (0.1, 100), (7.0, 100)],
)
def test_the_highest_share_that_is_reached_is_reported(spent, percent):
    assert find_percent((0.5, 0.9), 0.1, spent) == percent
