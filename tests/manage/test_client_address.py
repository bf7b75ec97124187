import pytest

from manage.client_address import find_client


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ([b"mark 10.0.0.7"], "10.0.0.7"),
        ([b"mark ::1"], "::1"),
        ([b"other 10.0.0.7"], None),
        ([b"10.0.0.7"], None),
        ([b"mark 10.0.0.7", b"mark 10.0.0.8"], None),
        ([b"m\xe4rk 10.0.0.7"], None),
        ([], None),
    ],
)
def test_only_who_knows_the_mark_is_believed(values, client):
    assert find_client(values, b"mark") == client


def test_without_a_mark_nobody_is_believed():
    assert find_client([b" 10.0.0.7"], b"") is None
