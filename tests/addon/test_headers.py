import tracemalloc

import pytest
from hypothesis import given, strategies as st
from mitmproxy.http import Headers

from addon import headers
from addon.headers import RequestFilter

forwarded = RequestFilter("anthropic")


def returned(*fields):
    return headers.returned(fields, headers.index(fields))


@pytest.mark.parametrize(
    "name",
    [
        b"anthropic-version", b"Anthropic-Beta", b"x-api-key", b"Authorization", b"user-agent",
        b"accept", b"Accept-Language", b"accept-encoding", b"x-app", b"X-Stainless-Retry-Count",
        b"x-sdk-version", b"x-claude-code-session-id", b"x-claude-1p-request-class",
        b"X-Client-Request-Id", b"Content-Type", b"content-encoding",
        b"content-length", b"transfer-encoding", b"host", b"idempotency-key", b"traceparent",
        b"tracestate",
    ],
)  # fmt: skip
def test_what_the_upstream_should_see_passes_unchanged(name):
    field = (name, b" Value ")
    assert forwarded((field,)) == (field,)


@pytest.mark.parametrize(
    "name",
    [
        b"Cookie", b"x-forwarded-for", b"X-Forwarded-Host", b"forwarded", b"connection",
        b"keep-alive", b"te", b"trailer", b"upgrade", b"proxy-authorization", b"x-real-ip",
        b"x-foo", b"x-taximeter-client", b"sec-fetch-mode", b"origin",
    ],
)  # fmt: skip
def test_the_rest_stays_here(name):
    assert forwarded(((name, b"1"),)) == ()


def test_order_case_and_duplicates_are_kept():
    fields = ((b"X-App", b"1"), (b"anthropic-beta", b"a"), (b"Anthropic-Beta", b"b"))
    assert forwarded(fields) == fields


def test_long_names_do_not_fill_the_memory():
    tracemalloc.start()
    try:
        for number in range(100):
            name = b"x-%d-" % number + b"n" * 50_000
            assert forwarded(((name, b"1"),)) == ()
            assert returned((name, b"1")) == ((name, b"1"),)
            del name
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_an_operator_can_let_more_prefixes_through():
    custom = RequestFilter("acme", ("x-team-",))
    fields = ((b"X-Team-Name", b"1"), (b"acme-version", b"2"), (b"anthropic-version", b"3"))
    assert custom(fields) == fields[:2]


def test_an_extra_prefix_cannot_let_hop_by_hop_headers_or_cookies_through():
    custom = RequestFilter("anthropic", ("c", "x-", "proxy-"))
    fields = ((b"cookie", b"1"), (b"connection", b"2"), (b"x-forwarded-for", b"3"))
    assert custom((*fields, (b"proxy-authorization", b"4"))) == ()


def test_an_extra_prefix_cannot_let_another_method_or_address_through():
    custom = RequestFilter("x", ("x-",))
    assert headers.REINTERPRETING
    assert custom(tuple((name.title(), b"1") for name in headers.REINTERPRETING)) == ()


def test_headers_that_the_client_declares_hop_by_hop_are_dropped():
    assert forwarded(((b"Connection", b"close, Content-X"), (b"content-x", b"1"))) == ()


def test_framing_and_credentials_cannot_be_declared_away():
    fields = ((b"content-length", b"2"), (b"x-api-key", b"k"))
    nominated = (b"connection", b"content-length, x-api-key")
    assert forwarded((nominated, *fields)) == fields


def test_a_response_passes_with_its_duplicates_but_without_what_is_between_hops():
    fields = ((b"Set-Cookie", b"a"), (b"set-cookie", b"b"), (b"request-id", b"req"))
    dropped = ((b"alt-svc", b"h3"), (b"Keep-Alive", b"timeout=5"), (b"trailer", b"x"))
    assert returned(*fields, *dropped) == fields


def test_an_upstream_cannot_send_a_header_of_ours():
    forged = ((b"X-Taximeter-Error", b"rate_limited"), (b"x-taximeter-new", b"1"))
    assert returned(*forged, (b"x-request-id", b"1")) == ((b"x-request-id", b"1"),)


def test_the_web_process_gets_no_upstream_credential_and_no_forged_client():
    fields = ((b"X-API-Key", b"secret"), (b"x-taximeter-client", b"forged"), (b"cookie", b"c"))
    assert headers.for_web(fields, b"token 1.2.3.4") == (
        (b"cookie", b"c"),
        (b"x-taximeter-client", b"token 1.2.3.4"),
    )


@given(st.lists(st.tuples(st.sampled_from([b"A", b"a", b"B"]), st.binary(max_size=3)), max_size=5))
def test_the_index_has_all_values_of_a_name(fields):
    found = headers.index(fields)
    for name in {name.lower() for name, _ in fields}:
        assert found[name] == b",".join(value for each, value in fields if each.lower() == name)


def test_the_index_follows_what_is_changed_in_a_message():
    given = Headers([(b"X-A", b"1")])
    assert headers.index_of(given) is headers.index_of(given) == {b"x-a": b"1"}
    given["x-b"] = "2"
    assert headers.index_of(given) == {b"x-a": b"1", b"x-b": b"2"}


def credential(*fields):
    return headers.find_credential(headers.index(fields))


def test_a_fingerprint_is_the_same_for_the_same_credential_however_it_is_sent():
    key = b"k" * 32
    by_header = headers.fingerprint(credential((b"X-Api-Key", b"sk-ant-1")), key, "org")
    bearer = credential((b"authorization", b"Bearer sk-ant-1"))
    assert by_header == headers.fingerprint(bearer, key, "org")
    assert by_header != headers.fingerprint(b"sk-ant-2", key, "org")
    assert by_header != headers.fingerprint(b"sk-ant-1", b"other" * 8, "org")
    assert "sk-ant" not in by_header


def test_a_fingerprint_does_not_tell_that_organisations_share_a_credential():
    found = headers.fingerprint(b"sk-ant-1", b"k", "org-1")
    assert found != headers.fingerprint(b"sk-ant-1", b"k", "org-2")
    assert found != headers.fingerprint(b"1sk-ant-1", b"k", "org-")


@pytest.mark.parametrize("fields", [(), ((b"x-api-key", b""),), ((b"authorization", b""),)])
def test_an_empty_credential_is_none(fields):
    assert credential(*fields) is None


def test_of_two_credentials_the_key_counts():
    fields = ((b"authorization", b"bearer \t sk-ant-2"), (b"x-api-key", b"sk-ant-1"))
    assert credential(*fields) == b"sk-ant-1"
    assert credential(fields[0]) == b"sk-ant-2"


@pytest.mark.parametrize(
    "field",
    [
        (b"transfer-encoding", b"\x0bchunked"),
        (b"Transfer-Encoding", b"gzip, chunked"),
        (b"transfer-encoding", b"identity"),
    ],
)
def test_headers_that_two_readers_could_read_differently_are_a_fault(field):
    assert headers.find_fault(headers.index(((b"accept", b"x"), field)))


@pytest.mark.parametrize(
    "fields",
    [
        ((b"host", b"localhost:80/.."),),
        ((b"Host", b"user@localhost"),),
        ((b"host", b"a"), (b"Host", b"a")),
    ],
)
def test_a_host_that_is_not_one_plain_host_is_a_fault(fields):
    assert "Host" in (headers.find_fault(headers.index(fields)) or "")


@pytest.mark.parametrize(
    "field",
    [(b"Transfer-Encoding", b" Chunked\t"), (b"host", b""), (b"Host", b"[::1]:8080")],
)
def test_unusual_but_clear_headers_are_no_fault(field):
    assert headers.find_fault(headers.index((field,))) is None


def test_another_host_takes_the_place_of_the_first():
    fields = ((b"accept", b"*/*"), (b"HOST", b"a"), (b"x-app", b"cli"))
    assert headers.with_host(fields, b"b") == (fields[0], (b"HOST", b"b"), fields[2])
    assert headers.with_host((), b"b") == ((b"host", b"b"),)


def test_what_a_forward_proxy_carries_passes_as_it_is():
    fields = (
        (b"Host", b"api.anthropic.com"),
        (b"X-Odd", b"1"),
        (b"x-odd", b"2"),
        (b"Cookie", b"a=b"),
        (b"X-Forwarded-For", b"192.0.2.7"),
        (b"Connection", b"Keep-Alive"),
        (b"Transfer-Encoding", b"chunked"),
    )
    assert headers.keep_all(fields) == fields


def test_not_even_then_pass_what_is_between_hops_ours_or_makes_another_request():
    dropped = (
        (b"x-taximeter-headers", b"all"),
        (b"X-Taximeter-User", b"ana"),
        (b"connection", b"close, x-hop"),
        (b"x-hop", b"1"),
        (b"te", b"trailers"),
        (b"proxy-authorization", b"Basic x"),
        (b"upgrade", b"h2c"),
        (b"X-HTTP-Method-Override", b"GET"),
        (b"x-original-url", b"/v1/files"),
    )
    assert headers.keep_all(((b"accept", b"*/*"), *dropped)) == ((b"accept", b"*/*"),)
