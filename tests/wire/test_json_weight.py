import json

import pytest

from tests.processor_time import takes_less_than
from wire.json_weight import is_light


@pytest.mark.parametrize(
    "data",
    [
        b"[]," * 1_000,
        b'{"a":{}},' * 1_000,
        b"0," * 2_000,
        b"[" * 2_000,
        b'"",' * 2_000,
        rb'"\\",' * 2_000,
        rb'"\"",' * 2_000,
        b"," * 1_001 + b'"' + b"[" * 2_000,
    ],
)
def test_many_values_are_heavy(data):
    assert not is_light(data, 1_000)


@pytest.mark.parametrize(
    "text", ["[{," * 5_000, '{"a": ["b", {}]}\n' * 100, "\\[" * 1_000, "ü[" * 1_000, '"' * 500]
)
def test_text_is_light_whatever_it_is_of(text):
    data = json.dumps({"messages": [{"role": "user", "content": text}] * 3}).encode()
    assert is_light(data, 1_000)


@pytest.mark.parametrize("filling", [b'""', rb"\n", b"["])
def test_text_that_takes_long_to_find_is_heavy(filling):
    assert not is_light(b"," * 1_001 + b'"' + filling * 100_000 + b'"', 1_000)


@pytest.mark.parametrize("end", [b"", b"\\", b"\n"])
def test_strings_that_never_close_are_looked_through_once(end):
    data = b"," * 20_001 + b'"' + rb"\"" * 150_000 + end
    # A hundredth of that, but minutes where the search begins again at each quote.
    with takes_less_than(2):
        assert not is_light(data, 20_000)


def test_all_that_follows_a_quote_that_never_closes_is_text():
    assert is_light(b'["' + b"[," * 1_000, 1_000)
    assert is_light(rb'["\\\""' + b',"' + rb"[,\"" * 1_000 + b"\\", 1_000)


def test_what_is_shorter_than_the_limit_needs_no_look():
    assert is_light(b"[" * 1_000, 1_000)
