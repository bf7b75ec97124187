from addon.response_metadata import ResponseMetadata
from store.spool.format import ResponseHead

METADATA = ResponseMetadata("acme")


def test_named_fields_are_kept_and_no_others():
    fields = (
        (b"Content-Type", b"text/event-stream"),
        (b"Request-Id", b"req_1"),
        (b"Acme-Organization-Id", b"org-1"),
        (b"acme-workspace-id", b"wrkspc_1"),
        (b"Acme-RateLimit-Requests-Limit", b"50"),
        (b"acme-ratelimit-unified-7d_oi-status", b"allowed"),
        (b"anthropic-ratelimit-requests-limit", b"of another vendor"),
        (b"Retry-After", b"7"),
        (b"set-cookie", b"secret"),
    )
    assert METADATA.make_head(429, fields) == ResponseHead(
        status_code=429,
        content_type="text/event-stream",
        upstream_request_id="req_1",
        upstream_organization_id="org-1",
        workspace_id="wrkspc_1",
        rate_limits={
            "requests-limit": "50",
            "unified-7d_oi-status": "allowed",
            "retry-after": "7",
        },
    )


def test_without_such_headers_there_is_the_status():
    assert METADATA.make_head(200, ()) == ResponseHead(status_code=200)


def test_what_is_kept_is_bounded():
    fields = tuple((b"acme-ratelimit-a%d" % number, b"1") for number in range(10_000))
    long = (b"acme-ratelimit-tokens-limit", b"9" * 10_000)
    head = METADATA.make_head(200, (*fields, long, (b"acme-organization-id", b"x" * 10_000)))
    assert len(head.rate_limits or {}) < 50
    assert "tokens-limit" not in (head.rate_limits or {})
    assert head.upstream_organization_id == "x" * 200
