from hypothesis import given, strategies as st

from conversations.predecessor import match_in_order


def split(text):
    return [letter.encode() for letter in text]


def test_the_longest_run_in_the_same_order_is_found():
    assert match_in_order(split("abcde"), split("abXde")) == [0, 1, 3, 4]
    assert match_in_order(split("abc"), split("cab")) == [1, 2]
    assert match_in_order(split("aab"), split("aXab")) == [0, 2, 3]
    assert match_in_order(split("abc"), split("xyz")) == []
    assert match_in_order([], split("a")) == match_in_order(split("a"), []) == []


@given(st.text("abcdef", max_size=12), st.text("abcdef", max_size=12))
def test_places_ascend_and_hold_equal_values(before, now):
    places = match_in_order(split(before), split(now))
    assert places == sorted(set(places))
    wanted = iter(before)
    assert all(now[place] in wanted for place in places)


@given(st.lists(st.binary(min_size=2, max_size=2), unique=True), st.randoms())
def test_without_repetitions_no_run_is_longer(values, random):
    now = random.sample(values, len(values))
    best = [1] * len(now)
    for n, value in enumerate(now):
        for m in range(n):
            if values.index(now[m]) < values.index(value):
                best[n] = max(best[n], best[m] + 1)
    assert len(match_in_order(values, now)) == max(best, default=0)
