import math
import random

import pytest

from store.traces.sums import histograms
from store.traces.sums.histograms import RESOLUTION, find_percentile, make, pack, unpack


def add(values):
    return sum(make([value]) for value in values)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 0.99, 1])
@pytest.mark.parametrize("count", [1, 2, 19, 1000])
def test_a_percentile_is_that_of_the_values_within_the_resolution(share, count):
    dice = random.Random(count)  # noqa: S311
    values = [dice.lognormvariate(4, 2) for _ in range(count)]
    exact = sorted(values)[math.ceil(share * count) - 1]
    found = find_percentile(add(values), share)
    assert found == pytest.approx(exact, rel=RESOLUTION)


def test_the_sum_of_two_is_the_histogram_of_both():
    assert add([3, 3, 700]) + add([3, 0.2]) == add([3, 3, 3, 0.2, 700])
    assert histograms.count(add([3, 3, 700]) + add([3])) == 4
    assert make([3, 3, 3, 0.2, 700]) == add([3, 3, 3, 0.2, 700])


def test_what_is_stored_is_what_was_counted():
    histogram = add([0, 1, 1e9] * 300)
    assert unpack(pack(histogram)) == histogram
    assert unpack(pack(0)) == 0
    assert pack(add([600, 600, 650])) == bytes([121, 2, 0, 0, 0, 1, 0, 0, 0])


def test_values_beyond_the_scale_are_in_its_first_and_last_bucket():
    assert make([0]) == make([-5]) == make([0.001]) == 1
    assert make([1e15]) == make([2.0**24])
    assert find_percentile(add([1e15]), 1) == pytest.approx(2.0**24, rel=0.05)


def test_nothing_has_no_percentile():
    assert find_percentile(0, 0.5) is None
