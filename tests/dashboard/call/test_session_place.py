"""The place of a call in its session: numbers, neighbours, and the bars of all turns."""

import pytest

from dashboard.call.session_place import HEIGHT, MAX_BARS, describe_place, draw_bars
from store.traces.calls.call_reader import Call
from store.traces.sessions.session_places import Place
from tests.store.traffic import make_entry


def call_of(usage_id, previous_id=None, next_id=None):
    return Call(
        id=usage_id,
        entry=make_entry(),
        request=None,
        response=None,
        previous_id=previous_id,
        next_id=next_id,
        session="s 1",
    )


def test_turns_are_counted_in_their_session():
    places = [Place(7, 1.0, False), Place(9, 5.0, True), Place(12, None, False)]
    found = describe_place(call_of(9, 7, 12), None, places)
    assert (found.words, found.count, found.address) == ("turn 2", 3, "/sessions/s%201")
    assert (found.previous, found.next) == ((7, 1), (12, 3))
    assert (found.most_expensive, found.most_cents) == ((9, 2), 5.0)
    assert found.mark is not None
    assert (found.mark.x, found.mark.width) == ("33.33%", "33.33%")


def test_failed_call_is_no_turn_as_in_the_story():
    places = [
        Place(6, 0.0, False, True),
        Place(7, 1.0, False),
        Place(8, 0.0, False, True),
        Place(9, 2.0, False),
    ]
    found = [describe_place(call_of(usage_id, 7, 9), None, places) for usage_id in (6, 7, 8, 9)]
    assert [each.words for each in found] == [
        "failed before turn 1",
        "turn 1",
        "failed after turn 1",
        "turn 2",
    ]
    assert {each.count for each in found} == {2}
    assert (found[2].previous, found[2].next) == ((7, 1), (9, 2))
    assert found[2].mark is not None
    assert found[2].mark.x == "50.00%"


def test_session_that_is_too_long_is_not_counted():
    found = describe_place(call_of(9, 7), None, [])
    assert (found.words, found.count, found.mark) == ("", 0, None)
    assert (found.bars, found.previous, found.most_expensive) == ([], (7, None), None)


def test_turn_that_broke_the_cache_stands_out_and_one_without_a_cost_has_no_bar():
    bars = draw_bars([Place(1, 1.0, False), Place(2, None, False), Place(3, 2.0, True)])
    assert [bar.kind for bar in bars] == ["read", "write"]
    assert (bars[1].y, bars[1].height) == (0, HEIGHT)


@pytest.mark.parametrize("count", [1, MAX_BARS, MAX_BARS + 1, 2_000])
def test_many_turns_share_bars_within_the_drawing(count):
    bars = draw_bars([Place(n, float(n), False) for n in range(1, count + 1)])
    assert 0 < len(bars) <= MAX_BARS
    for bar in bars:
        assert float(bar.x[:-1]) + float(bar.width[:-1]) <= 100.01
        assert bar.y + bar.height == HEIGHT
