from hypothesis import given, strategies as st

from runtime.moving_window import MovingWindow


def test_the_limit_is_reached_exactly_and_says_how_long_to_wait():
    window = MovingWindow(3)
    assert [window.admit("a", t) for t in (0, 10, 20)] == [0, 0, 0]
    assert window.admit("a", 30) == 30
    assert window.admit("a", 59.5) == 0.5
    assert window.admit("a", 60) == 0
    assert window.admit("a", 60) == 10


def test_keys_do_not_share_a_window():
    window = MovingWindow(1)
    assert window.admit("a", 0) == 0
    assert window.admit("b", 0) == 0
    assert window.admit("a", 1) > 0


def test_refused_requests_do_not_count():
    window = MovingWindow(1)
    window.admit("a", 0)
    for t in range(1, 60):
        assert window.admit("a", t) > 0
    assert window.admit("a", 60) == 0


@given(st.lists(st.floats(0, 20), max_size=200), st.integers(1, 20))
def test_no_minute_ever_holds_more_than_the_limit(gaps, limit):
    window, now, admitted = MovingWindow(limit), 0.0, []
    for gap in gaps:
        now += gap
        if window.admit("a", now) == 0:
            admitted.append(now)
    for start in admitted:
        assert sum(start <= t < start + 60 for t in admitted) <= limit


def test_idle_keys_are_forgotten():
    window = MovingWindow(1)
    window.admit("a", 0)
    window.admit("b", 50)
    window.forget_idle(61)
    assert list(window._admitted) == ["b"]
