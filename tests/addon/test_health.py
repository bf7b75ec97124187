import pytest

from addon.health import is_loopback_name


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8080", "127.0.0.1:80", "127.1.2.3", "[::1]", "[::1]:8080"]
)
def test_a_loopback_name_is_recognised(host):
    assert is_loopback_name(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "meter.example",
        "localhost.example",
        "10.0.0.1",
        "[::1",
        "x@localhost",
        "localhost/x",
    ],
)
def test_any_other_host_is_none(host):
    assert not is_loopback_name(host)
