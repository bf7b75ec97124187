import pytest

from runtime.local_requests import parse_host


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8080", "localhost"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[2001:DB8::1]:443", "2001:db8::1"),
        ("meter.example.org.", "meter.example.org."),
        ("compose_service:8080", "compose_service"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_a_plain_host_is_parsed(text, host):
    assert parse_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":80",
        "localhost:",
        "localhost:80/..",
        "localhost:80:80",
        "localhost:65536",
        "localhost:\uff18\uff10",
        "localhost/",
        "localhost?",
        "localhost#",
        "user@localhost",
        "localhost, localhost",
        "localhost evil",
        "[::1",
        "::1",
        "[localhost]",
        "localhost\\evil",
        "localhost\n",
        "%6cocalhost",
    ],
)
def test_anything_else_is_not(text):
    assert parse_host(text) is None
