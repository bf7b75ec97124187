import pytest

from addon.redaction import MAX_CHARS, redact_query


@pytest.mark.parametrize(
    "target",
    [
        "/v1/messages",
        "/v1/messages?",
        "/v1/messages?beta=true",
        "/v1/messages?beta=true&n=17&&x=;y",
        "/v1/messages?a=b=c&tag=team%20a&page=2",
    ],
)
def test_what_is_no_credential_is_kept_as_it_is(target):
    assert redact_query(target) == target


@pytest.mark.parametrize(
    "parameter",
    [
        "api_key=x",
        "api-key=x",
        "APIKEY=x",
        "x-api-key=x",
        "api%5Fkey=x",
        "%61uthorization=x",
        "access_token=x",
        "client_secret=x",
        "password=x",
        "sig=x",
        "X-Amz-Signature=x",
        "key=a=b",
        "tag=sk-ant-api03-xyz",
        "tag=sk_0123",
        "tag=%73k-ant-xyz",
        "tag=Bearer+xyz",
        "tag=eyJhbGciOi",
    ],
)
def test_what_looks_like_a_credential_is_replaced(parameter):
    name = parameter.partition("=")[0]
    target = f"/v1/messages?beta=true&{parameter}&n=1;{parameter}"
    expected = f"/v1/messages?beta=true&{name}=REDACTED&n=1;{name}=REDACTED"
    assert redact_query(target) == expected


def test_a_credential_without_a_name_is_replaced():
    assert redact_query("/v1/messages?sk-ant-x") == "/v1/messages?REDACTED"


def test_a_long_query_is_cut_and_nothing_of_a_credential_comes_through():
    target = "/v1/messages?" + "a=b&" * 495 + "api_key=" + "x" * 100_000
    assert len(redact_query(target)) <= MAX_CHARS + len("REDACTED")
    assert "xx" not in redact_query(target)
