"""Managed sessions and dreams as they say of themselves, whole, cut, and made of anything."""

import json

import pytest
from hypothesis import given, strategies as st

from tests.metering.test_object_reading import DREAM, EVENTS, SESSION
from wire.batch_results import parse_result
from wire.managed_objects import find_session_usage, list_objects

STREAM = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in EVENTS)
NAMES = st.sampled_from(
    (
        *("type", "data", "usage", "id", "agent", "model", "multiagent", "created_at"),
        *("list_cost", "amount", "currency", "active_seconds", "processed_at"),
        *("custom_id", "result", "message", "error"),
    )
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(("session", "session.usage", "USD", "2026-11-20T10:00:00Z", "succeeded")),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=5),
    max_leaves=12,
)


def test_a_stream_of_events_that_was_cut_has_the_latest_counts_that_came():
    found = [find_session_usage(STREAM[:end]) for end in range(len(STREAM) + 1)]
    seconds = [None if each is None else each[1].active_seconds for each in found]
    assert list(dict.fromkeys(seconds)) == [None, 10.0, 30.0]
    assert sorted(seconds, key=lambda each: each or 0) == seconds


def test_a_list_that_was_cut_has_no_objects():
    body = json.dumps({"data": [SESSION, SESSION | {"id": "sesn_2"}]}).encode()
    assert [each.id for each in list_objects("session", body)] == ["sesn_1", "sesn_2"]
    assert not any(list_objects("session", body[:end]) for end in range(len(body)))


@pytest.mark.parametrize(
    ("kind", "own", "other"), [("session", SESSION, DREAM), ("dream", DREAM, SESSION)]
)
def test_an_object_of_the_other_kind_is_none(kind, own, other):
    assert len(list_objects(kind, json.dumps(own).encode())) == 1
    assert list_objects(kind, json.dumps(other).encode()) == []


@given(document=VALUES)
def test_nothing_that_a_response_may_be_raises(document):
    body = json.dumps(document).encode()
    for each in (body, b"data: %b\n\n" % body):
        list_objects("session", each)
        list_objects("dream", each)
        find_session_usage(each)
        parse_result(each)
