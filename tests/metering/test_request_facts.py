import json

import pytest
from hypothesis import given, strategies as st

from metering.request_facts import MAX_VALUES, RequestFacts, parse_facts


def facts(**document):
    return parse_facts(json.dumps(document).encode())


def test_names_and_numbers_are_read_and_counted():
    assert facts(
        model="claude-x",
        max_tokens=4096,
        metadata={"user_id": '{"session_id": "s-1"}'},
        messages=[{"role": "user"}] * 5,
        tools=[{}, {}],
    ) == RequestFacts(
        model="claude-x", session_id="s-1", max_tokens=4096, message_count=5, tool_count=2
    )


@pytest.mark.parametrize(
    ("document", "count"),
    [
        ({"messages": []}, 0),
        ({"messages": [], "tools": []}, 0),
        ({"messages": [], "tools": None}, None),
        ({"messages": 7}, None),
        ({}, None),
    ],
)
def test_a_message_request_without_tools_has_none_and_another_is_unknown(document, count):
    assert facts(**document).tool_count == count


@pytest.mark.parametrize(
    "document",
    [
        {"model": 7, "max_tokens": "8", "metadata": "x", "messages": {}, "tools": "x"},
        {"max_tokens": -1},
        {"max_tokens": True},
        {"max_tokens": 1.5},
        {"max_tokens": 10**13},
        {"metadata": {"user_id": 17}},
        {"metadata": {"user_id": "{" * 1_000}},
        {"metadata": {"user_id": "_session_x" * 1_000}},
    ],
)
def test_what_is_not_what_it_should_be_is_left_out(document):
    assert facts(**document) == RequestFacts()


def test_names_are_bounded():
    assert len(facts(model="m" * 10_000).model or "") == 200


def test_a_request_of_very_many_values_is_not_parsed(monkeypatch):
    monkeypatch.setattr("metering.request_facts.orjson.loads", None)
    assert parse_facts(b'{"model":"m"}' + b"[" * (MAX_VALUES + 1)) == RequestFacts()


def test_a_large_request_of_real_text_is_read():
    text = 'def f(a, b): return {"a": [a, b]}\n' * 10_000
    assert facts(model="m", messages=[{"role": "user", "content": text}] * 3).model == "m"


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(data):
    parse_facts(data)
