from hypothesis import given, strategies as st

from runtime.attempts import NETWORK_PREFIX, AttemptLimit, MovingWindow, client_network


def test_attempts_are_counted_for_each_key():
    limit = AttemptLimit(2)
    assert [limit.count("10.0.0.7", now_s) for now_s in (0, 1, 2.5)] == [0, 0, 58]
    assert limit.count("10.0.0.8", 3) == 0
    assert limit.count("10.0.0.7", 60) == 0


def test_a_customer_with_a_64_is_one_address():
    assert client_network("2001:db8::1") == client_network("2001:db8::ffff:1")
    assert client_network("2001:db8::1") != client_network("2001:db8:0:1::1")
    assert client_network("10.0.0.7") == "10.0.0.7"


def test_a_site_with_a_48_is_one_network():
    assert client_network("2001:db8::1", NETWORK_PREFIX) == client_network(
        "2001:db8:0:ffff::1", NETWORK_PREFIX
    )
    assert client_network("2001:db8::1", NETWORK_PREFIX) != client_network(
        "2001:db8:1::1", NETWORK_PREFIX
    )


def test_what_is_no_address_is_counted_as_it_is():
    assert client_network("") == ""
    assert client_network("unix") == "unix"


def test_keys_are_forgotten():
    limit = AttemptLimit(1)
    limit.count("10.0.0.7", 0)
    limit.count("10.0.0.8", 100)
    assert list(limit._window._admitted) == ["10.0.0.8"]


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
