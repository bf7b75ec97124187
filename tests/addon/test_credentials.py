import pytest

from addon.credentials import find_service_keys

RAW = "sk_" + "aB3-_" * 8 + "xyz"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-api-key", RAW),
        (b"X-Api-Key", f" {RAW} "),
        (b"Authorization", f"Bearer {RAW}"),
        (b"authorization", f"bearer  {RAW}"),
        (b"authorization", RAW),
    ],
)
def test_a_key_of_our_format_is_found_however_it_is_sent(name, value):
    assert list(find_service_keys(((b"accept", b"*/*"), (name, value.encode())))) == [RAW]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-api-key", "sk-ant-api03-" + "a" * 93),
        (b"authorization", "Bearer sk-ant-oat01-" + "a" * 43),
        (b"x-api-key", RAW + "a"),
        (b"x-api-key", RAW[:-1]),
        (b"x-api-key", "x" + RAW),
        (b"x-api-key", "sk-ant-" + RAW),
        (b"x-stainless-lang", RAW),
    ],
)
def test_nothing_else_is_taken_for_one(name, value):
    assert not list(find_service_keys(((name, value.encode()),)))
