"""Heads: what is refused before mitmproxy reads it, and sizes that are mitmproxy's own."""

import re

import pytest
from h11._receivebuffer import ReceiveBuffer
from hypothesis import given, strategies as st
from mitmproxy.http import Headers, Request, Response
from mitmproxy.net.http import http1, validate
from mitmproxy.test import tutils

from addon.core import head_bounds, response_heads
from addon.http1 import heads
from addon.http1.heads import MAX_INTERIM_BYTES, ResponseHeadReader

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


def make_buffer(data: bytes) -> ReceiveBuffer:
    buffer = ReceiveBuffer()
    buffer += data
    return buffer


UNCLEAR_HEADS = [
    b"POST / HTTP/1.1\r\ntransfer-encoding: \x0bchunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nx-a: 1\x0c\r\n\r\n",
    b"POST / HTTP/1.1\r\nx-a: 1\r\r\n\r\n",
    b"POST\x0b/\x0cHTTP/1.1\r\nx-a: 1\r\n\r\n",
    b"POST / HTTP/1.1\r\nx-a: \x00\r\n\r\n",
    b"POST / HTTP/1.1\r\nx-a: \x7f\r\n\r\n",
]


@pytest.mark.parametrize("head", UNCLEAR_HEADS)
def test_a_request_head_with_control_characters_is_refused(head: bytes) -> None:
    with pytest.raises(ValueError, match="control characters"):
        heads.parse_request(head)


@pytest.mark.parametrize(
    "line", [b" x: 1", b"\tx", b"x-a : 1", b"x a: 1", b": 1", b"x-a", b"\xc3\x84: 1"]
)
def test_a_line_without_the_name_of_a_field_is_refused(line: bytes) -> None:
    with pytest.raises(heads.BadLineError, match="header line"):
        heads.parse_request(b"POST / HTTP/1.1\r\nhost: x\r\n" + line + b"\r\n\r\n")


def test_names_have_all_bytes_that_are_allowed_and_values_lose_the_blanks_around_them() -> None:
    head = b"GET / HTTP/1.1\r\nx!#$%&'*+.^_`|~-1A: \t a\tb \xc3\xa9\xff \r\nx-a:\r\n\r\n"
    fields = heads.parse_request(head).headers.fields
    assert fields == ((b"x!#$%&'*+.^_`|~-1A", b"a\tb \xc3\xa9\xff"), (b"x-a", b""))


ODD_FIRST_LINES = [
    b"post / HTTP/1.1",
    b"POST  / HTTP/1.1",
    b"POST\t/\tHTTP/1.1",
    b" POST / HTTP/1.1",
    b"POST / HTTP/2.0",
    b"POST / HTTP/0.9",
    b"",
]


@pytest.mark.parametrize("line", ODD_FIRST_LINES)
def test_an_odd_first_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="request line"):
        heads.parse_request(line + b"\r\nhost: x\r\n\r\n")


def test_a_method_may_have_hyphens_and_the_version_be_1_0() -> None:
    request = heads.parse_request(b"VERSION-CONTROL / HTTP/1.0\r\n\r\n")
    assert (request.method, request.http_version) == ("VERSION-CONTROL", "HTTP/1.0")


@given(
    st.lists(
        st.binary(min_size=1, max_size=30).filter(lambda line: b"\n" not in line)
        | st.sampled_from([b"POST / HTTP/1.1", b"GET http://a:1/b HTTP/1.0", b"host: x", b" fold"]),
        min_size=1,
        max_size=5,
    )
)
def test_of_any_lines_comes_a_plain_request_or_a_refusal(lines: list[bytes]) -> None:
    try:
        found = heads.parse_request(b"\r\n".join([*lines, b"", b""]))
    except ValueError:
        return
    assert found.data.method.isupper()
    assert not re.search(rb"[\x00-\x20\x7f]", found.data.path)


LENGTHS = [b"0", b"5", b"05", b"+5", b"5 ", b"", b"5, 5", b"\xb2", b"9" * 18, b"9" * 19]
FRAMING_FIELDS = st.lists(
    st.tuples(st.sampled_from([b"Content-Length", b"content-length"]), st.sampled_from(LENGTHS))
    | st.tuples(st.just(b"Transfer-Encoding"), st.sampled_from([b"chunked", b"gzip", b"x"])),
    max_size=2,
)


@given(
    FRAMING_FIELDS,
    st.sampled_from([b"POST", b"GET", b"HEAD"]),
    st.sampled_from([None, 200, 204, 304, 404]),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0"]),
)
def test_sizes_and_refusals_are_those_of_mitmproxy(
    fields: list[tuple[bytes, bytes]],
    method: bytes,
    status: int | None,
    version: bytes,
) -> None:
    message = Headers(fields)
    own = message if status is None else Headers()
    request = tutils.treq(method=method, headers=own, http_version=version)
    response = (
        None
        if status is None
        else tutils.tresp(status_code=status, headers=message, http_version=version)
    )

    def judge_stock() -> int | str | None:
        try:
            validate.validate_headers(response or request)
            return http1.expected_http_body_size(request, response)
        except ValueError:
            return "refused"

    def judge() -> int | str | None:
        try:
            return heads.find_body_size(request, response)
        except ValueError:
            return "refused"

    assert judge() == judge_stock()


def read_response(data: bytes, step: int) -> Response | None:
    reader, buffer = ResponseHeadReader(), ReceiveBuffer()
    for start in range(0, len(data), step):
        buffer += data[start : start + step]
        found = reader.read(buffer)
        if found is not None:
            return found
    return None


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("interim", [b"", CONTINUE, EARLY_HINTS, CONTINUE + EARLY_HINTS])
def test_interim_responses_are_skipped_however_they_come(interim: bytes, step: int) -> None:
    found = read_response(interim + RESPONSE, step)
    assert found is not None
    assert found.status_code == 200


INVALID_HEADS = {
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n": "switches protocols",
    b"HTTP/1.1 20 X\r\ncontent-length: 0\r\n\r\n": "status line",
    b"HTTP/1.1 200 OK\r\nx: a\x00b\r\n\r\n": "control characters",
    b"HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n": "control characters",
    b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\n\r\n": "folded",
    b"\r\n" + RESPONSE: "blank line",
    b"\n" + RESPONSE: "blank line",
    b"HTTP/1.1 200 X\r\n" + b"a:\r\n" * 201 + b"\r\n": "more than 200 header lines",
    b"HTTP/1.1 103 X\r\n" + b"a:\r\n" * 201 + b"\r\n": "more than 200 header lines",
    b"HTTP/1.1 200 X\r\n" + b"a:\r\n" * 201: "more than 200 header lines",
    b"HTTP/1.1 200 X\r\nx: " + b"x" * head_bounds.MAX_HEAD_BYTES: "its head is larger",
    b"HTTP/1.1 100 X\r\nx: " + b"x" * head_bounds.MAX_HEAD_BYTES: "its head is larger",
    EARLY_HINTS * (MAX_INTERIM_BYTES // len(EARLY_HINTS) + 1): "its interim responses are larger",
}


@pytest.mark.parametrize("head", INVALID_HEADS)
def test_a_response_head_that_is_not_valid_is_refused(head: bytes) -> None:
    with pytest.raises(ValueError, match=INVALID_HEADS[head]):
        ResponseHeadReader().read(make_buffer(head))


def test_a_response_of_200_header_lines_is_taken() -> None:
    head = b"HTTP/1.1 200 X\r\n" + b"a:\r\n" * 200 + b"\r\n"
    assert ResponseHeadReader().read(make_buffer(head)) is not None


@pytest.mark.parametrize("empty", [b"\r\n", b"\n", b"\r\n\n\r\n", b"\r\n" * 30_000])
def test_empty_lines_before_a_request_are_dropped(empty: bytes) -> None:
    buffer = make_buffer(empty + b"GET /")
    heads.skip_empty_lines(buffer)
    assert bytes(buffer) == b"GET /"


@given(st.lists(st.sampled_from([b"\n", b"\r", b"a"]), max_size=12).map(b"".join))
def test_a_head_ends_at_its_first_empty_line(data: bytes) -> None:
    end = re.search(rb"\n\r?\n", data)
    assert head_bounds.find_end(bytearray(data)) == (-1 if end is None else end.end())


def test_a_head_is_taken_once_it_is_whole_and_leaves_what_follows() -> None:
    buffer = make_buffer(b"GET / HTTP/1.1\r\n\r")
    assert heads.take_head(buffer) is None
    buffer += b"\nnext"
    assert heads.take_head(buffer) == b"GET / HTTP/1.1\r\n\r\n"
    assert bytes(buffer) == b"next"


def test_heads_are_written_as_they_were_read() -> None:
    sent = b"POST /a?b HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nx-a: 2\r\nX-B: \xff\r\n\r\n"
    assert heads.write_request(heads.parse_request(sent)) == sent
    received = b"HTTP/1.1 200 \r\nX-A: 1\r\nx-a: 2\r\n\r\n"
    assert heads.write_response(heads.parse_response(received)) == received


RESPONSE_LINES = st.sampled_from(
    [b"a: b", b"a:", b"a", b":", b" a: b", b"a b: c", b"a: \x00", b"a: \t\xff", b"HTTP/1.1 200"]
)


@given(
    st.sampled_from([b"HTTP/1.1 200  OK ", b"HTTP/1.0 599", b"HTTP/1.1 101 X", b"HTTP/1.1 20 X"]),
    st.lists(
        RESPONSE_LINES | st.binary(min_size=1, max_size=9).filter(lambda line: b"\n" not in line),
        max_size=3,
    ),
)
def test_what_is_no_response_has_a_fault_and_all_else_is_read_as_mitmproxy_does(
    first: bytes, others: list[bytes]
) -> None:
    head = b"\r\n".join([first, *others, b"", b""])
    lines = heads._split(head.replace(b"\r\n", b"\n"))
    fault = response_heads.find_fault(lines)
    if fault is not None:
        with pytest.raises(ValueError, match=fault):
            heads.parse_response(head)
        return
    found, expected = heads.parse_response(head), http1.read_response_head(lines)
    found.timestamp_start = expected.timestamp_start
    assert found.data == expected.data
    assert found.headers == expected.headers


def test_a_request_with_an_authority_is_written_by_mitmproxy() -> None:
    request = Request.make("GET", "http://a:1/b")
    request.authority = "a:1"
    assert heads.write_request(request).startswith(b"GET http://a:1/b HTTP/1.1\r\n")
