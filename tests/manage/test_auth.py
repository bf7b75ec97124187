import pytest

from manage.auth import FailureLimit, find_bearer, find_client


@pytest.mark.parametrize(
    ("values", "token"),
    [
        (["Bearer sk_x"], "sk_x"),
        (["bearer  sk_x "], "sk_x"),
        ([], None),
        (["sk_x"], None),
        (["Basic sk_x"], None),
        (["Bearer"], None),
        (["Bearer "], None),
        (["Bearer a b"], None),
        (["Bearer a", "Bearer b"], None),
    ],
)
def test_a_bearer_is_read(values, token):
    assert find_bearer(values) == token


@pytest.mark.parametrize(
    ("values", "client"),
    [
        (["mark 10.0.0.7"], "10.0.0.7"),
        (["mark ::1"], "::1"),
        (["other 10.0.0.7"], "peer"),
        (["10.0.0.7"], "peer"),
        (["mark 10.0.0.7", "mark 10.0.0.8"], "peer"),
        (["m\xe4rk 10.0.0.7"], "peer"),
        ([], "peer"),
    ],
)
def test_only_who_knows_the_mark_is_believed(values, client):
    assert find_client(values, "mark", "peer") == client


def test_without_a_mark_nobody_is_believed():
    assert find_client([" 10.0.0.7"], "", "peer") == "peer"


def test_failures_are_counted_for_each_address():
    limit = FailureLimit(2)
    assert [limit.count("10.0.0.7", now_s) for now_s in (0, 1, 2.5)] == [0, 0, 58]
    assert limit.count("10.0.0.8", 3) == 0
    assert limit.count("10.0.0.7", 60) == 0


def test_a_customer_with_a_64_is_one_address():
    limit = FailureLimit(1)
    assert limit.count("2001:db8::1", 0) == 0
    assert limit.count("2001:db8::ffff:1", 1) > 0
    assert limit.count("2001:db8:0:1::1", 1) == 0


def test_what_is_no_address_is_counted_as_it_is():
    limit = FailureLimit(1)
    assert limit.count("", 0) == 0
    assert limit.count("", 1) > 0


def test_addresses_are_forgotten():
    limit = FailureLimit(1)
    limit.count("10.0.0.7", 0)
    limit.count("10.0.0.8", 100)
    assert list(limit._window._admitted) == ["10.0.0.8"]
