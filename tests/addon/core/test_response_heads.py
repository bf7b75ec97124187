import pytest

from addon.core import response_heads

OK = b"HTTP/1.1 200 OK"
PREFIX = "Cannot parse HTTP response: "


@pytest.mark.parametrize(
    "lines",
    [
        [OK],
        [b"HTTP/1.0 404 "],
        [b"HTTP/1.1 599"],
        [
            b"HTTP/1.1 200 Alles in Ordnung \xc3\xa4",
            b"x-empty:",
            b"X-Ant!#$%&'*+.^_`|~: \t a\tb \xff ",
        ],
    ],
)
def test_a_valid_head_has_no_fault(lines):
    assert response_heads.find_fault(lines) is None


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        ([], "status line"),
        ([b"HTTP/1.1 20 X"], "status line"),
        ([b"HTTP/1.1 2000 X"], "status line"),
        ([b"HTTP/1.1 099 X"], "status line"),
        ([b"HTTP/1.1 600 X"], "status line"),
        ([b"HTTP/1.1 +20 X"], "status line"),
        ([b"HTTP/1.1 2_0 X"], "status line"),
        ([b"HTTP/1.1\t200 OK"], "status line"),
        ([b"HTTP/1.1  200 OK"], "status line"),
        ([b"HTTP/2.0 200 OK"], "status line"),
        ([b"HTTP/1.1 200 O\x00K"], "status line"),
        ([b"HTTP/1.1 200 O\rK"], "status line"),
        ([b"HTTP/1.1 101 Switching Protocols", b"upgrade: websocket"], "protocols"),
        ([OK, b"x: a\x00b"], "value"),
        ([OK, b"x: a\rset-cookie: b"], "value"),
        ([OK, b"x: a\x7f"], "value"),
        ([OK, b"x: a", b" folded"], "folded"),
        ([OK, b"\tfolded"], "folded"),
        ([OK, b"no colon"], "name"),
        ([OK, b": nameless"], "name"),
        ([OK, b"x : blank before the colon"], "name"),
        ([OK, b"x\x00: a"], "name"),
        ([OK, b"x\xe4: a"], "name"),
        ([OK, b"x(y): a"], "name"),
    ],
)
def test_an_invalid_head_is_named(lines, part):
    assert part in (response_heads.find_fault(lines) or "")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (PREFIX + "its status line is not valid", "its status line is not valid"),
        (
            "Received multiple content-length headers: [b'1'] from server, refusing to prevent …",
            "there is a fault in its Content-Length",
        ),
        (PREFIX + "Invalid header line: b'x'", "there is a fault in a header line"),
        ("server closed connection", None),
    ],
)
def test_the_cores_message_says_whether_it_was_the_head(message, reason):
    assert response_heads.find_reason(message) == reason
