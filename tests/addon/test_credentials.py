from base64 import b64encode, urlsafe_b64encode

import pytest

from addon.credentials import MAX_FOUND, find_service_keys

RAW = "sk_" + "aB3-_" * 8 + "xyz"
BASIC = b64encode(f"user:{RAW}".encode()).decode()
TARGET = "/proxy/default/v1/messages"


def find(name, value, target=TARGET):
    return find_service_keys(target, ((b"accept", b"*/*"), (name, value.encode())))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-api-key", RAW),
        (b"X-Api-Key", f" {RAW} "),
        (b"Authorization", f"Bearer {RAW}"),
        (b"authorization", f"bearer  {RAW}"),
        (b"authorization", RAW),
        (b"x-api-key", "x" + RAW),
        (b"x-api-key", RAW + "a"),
        (b"x-api-key", "sk-ant-" + RAW),
        (b"x-api-key", "sk_" + RAW),
        (b"anthropic-api-key", RAW),
        (b"user-agent", f"tool/1 ({RAW})"),
        (b"x-stainless-lang", RAW),
        (f"x-stainless-{RAW}".encode(), "1"),
        (b"Authorization", f"Basic {BASIC}"),
        (b"authorization", f"basic  {BASIC.rstrip('=')}"),
        (b"authorization", f"Basic {urlsafe_b64encode(f'ÿ?:{RAW}'.encode()).decode()}"),
    ],
)
def test_a_key_of_our_format_is_found_however_it_is_sent(name, value):
    assert RAW in find(name, value)


@pytest.mark.parametrize(
    "target",
    [
        f"{TARGET}?api_key={RAW}",
        f"{TARGET}/{RAW}",
        f"{TARGET}?api_key={RAW.replace('_', '%5F')}",
        f"{TARGET}?" + "".join(f"%{byte:02x}" for byte in RAW.encode()),
    ],
)
def test_a_key_of_our_format_is_found_in_a_target(target):
    assert find_service_keys(target, ()) == [RAW]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-api-key", "sk-ant-api03-" + "a" * 93),
        (b"authorization", "Bearer sk-ant-oat01-" + "a" * 43),
        (b"x-api-key", RAW[:-1]),
        (b"authorization", "Basic x"),
        (b"authorization", "Basic " + b64encode(b"user:password").decode()),
    ],
)
def test_nothing_else_is_taken_for_one(name, value):
    assert find(name, value) == []


def test_parts_that_are_not_beside_each_other_make_no_key():
    assert find_service_keys(RAW[:20], ((b"x-app", RAW[20:].encode()),)) == []


def test_no_more_are_found_than_are_worth_a_look():
    assert len(find(b"x-app", "sk_" * 80_000)) == MAX_FOUND + 1
