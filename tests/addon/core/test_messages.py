import pytest
from mitmproxy.net.http import http1, validate

from addon.core import messages


@pytest.mark.parametrize(
    ("head", "fault"),
    [
        ([b"GET"], "its first line"),
        ([b"GET / HTTP/x transfer-encoding"], "its first line"),
        ([b"GET / HTTP/1.1", b": 1"], "a header line"),
        ([b"GET / HTTP/1.1", b"a b: 1"], "a header line"),
        ([b"GET / HTTP/1.1", b"content-length: 1", b"content-length: 2"], "its Content-Length"),
        ([b"GET / HTTP/1.1", b"content-length: " + b"1" * 5000], "its Content-Length"),
        ([b"GET / HTTP/1.1", b"transfer-encoding: x"], "its Transfer-Encoding"),
    ],
)
def test_what_the_core_finds_still_has_a_name_of_ours(head, fault):
    with pytest.raises(ValueError) as found:  # noqa: PT011
        validate.validate_headers(http1.read_request_head(head))
    assert messages.name_fault(str(found.value)) == fault


@pytest.mark.parametrize("status", [400, 413, 502])
def test_nothing_of_an_unknown_message_of_the_core_is_told(status):
    assert "xyzzy" not in messages.explain_request(status, "xyzzy")
    assert "xyzzy" not in messages.explain_interruption("unexpected server response: xyzzy")
