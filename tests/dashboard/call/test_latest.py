"""News of a call, against the call before of the same session and agent."""

import json
from typing import Any

import pytest

from dashboard.call.latest import Latest, compare, count_same, find_latest
from store.traces.calls.call_reader import CallReader
from store.traces.calls.predecessors import write_previous
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry
from wire.request import Request, read_messages


def user(*texts, marked=False):
    blocks = [{"type": "text", "text": text} for text in texts]
    if marked:
        blocks[-1]["cache_control"] = {"type": "ephemeral"}
    return {"role": "user", "content": blocks}


def said(text):
    return {"role": "assistant", "content": text}


def count(before, now):
    return count_same(list(read_messages(before)), list(read_messages(now)))


HELLO, HI, MORE = user("Hello"), said("Hi"), user("More")


@pytest.mark.parametrize(
    ("before", "now", "latest"),
    [
        ([HELLO], [HELLO, HI, MORE], Latest(first=2, previous_id=7)),
        ([HELLO], [HELLO], Latest(first=2, previous_id=7)),
        ([user("Hello", marked=True)], [HELLO, HI, MORE], Latest(first=2, previous_id=7)),
        ([{"role": "user", "content": "Hello"}], [HELLO, HI], Latest(first=2, previous_id=7)),
        ([HELLO, HI, user("More", "a reminder")], [HELLO, HI, MORE, HI],
         Latest(first=4, previous_id=7, changed=3)),
        ([HELLO, HI, MORE], [HELLO, HI, user("Other")], Latest(first=3, previous_id=7)),
        ([HELLO, HI, MORE, HI], [HELLO, HI], Latest(first=3, previous_id=7)),
        ([user("Else"), HI, MORE], [HELLO, HI, MORE, HI], None),
        ([], [HELLO], None),
    ],
)  # fmt: skip
def test_what_the_call_before_did_not_have_is_new(before, now, latest):
    assert compare(7, list(read_messages(before)), list(read_messages(now))) == latest


@pytest.mark.parametrize("odd", [None, 5, "text", [], {}, {"content": 5}, {"content": [None, 5]}])
def test_no_message_is_too_odd_to_be_compared(odd):
    assert count([odd, HELLO], [odd, HI]) == 1
    count([odd], [HELLO])


def test_a_marker_within_a_result_makes_no_difference():
    part = {"type": "text", "text": "a"}
    plain = {"role": "user", "content": [{"type": "tool_result", "content": "a"}]}
    marked = {
        "role": "user",
        "content": [
            {"type": "tool_result", "content": [part | {"cache_control": {"type": "ephemeral"}}]}
        ],
    }
    assert count([plain], [marked]) == 1


@pytest.fixture
def latest_of(tmp_path):
    """Store calls of one session, and return what is new in the last one."""

    def latest_of(*calls):
        path = tmp_path / "traces.db"
        with TraceDatabase(path) as traces:
            traces.insert(
                [
                    make_entry(**{"session_id": "s", "request_class": None} | fields)
                    for fields in calls
                ]
            )
            last = traces.count_entries()
        with CallReader.open(path) as reader:
            call = reader.find_call(last)
            assert call is not None
            body = reader.read_body(last, "request", 1_000_000)
            return find_latest(call, Request(json.loads(body)).messages, reader)

    return latest_of


def body(*messages):
    return json.dumps({"model": "m", "messages": messages}).encode()


def test_the_call_before_is_the_last_one_that_was_answered_and_is_continued(latest_of):
    continued = {"request_body": body(HELLO)}
    failed = {"request_body": body(HELLO, HI), "input_tokens": None, "output_tokens": None}
    failed |= dict.fromkeys(("cache_creation_input_tokens", "cache_read_input_tokens"))
    side = {"request_body": body(HELLO, HI), "request_class": "auxiliary"}
    other = {"request_body": body(user("Something else"))}
    now = {"request_body": body(HELLO, HI, MORE)}
    assert latest_of(continued, failed, side, other, now) == Latest(first=2, previous_id=1)


def test_the_call_before_is_the_one_that_the_recorder_found(tmp_path, latest_of):
    now = {"request_body": body(HELLO, HI, MORE)}
    assert latest_of(
        {"request_body": body(HELLO)}, {"request_body": body(user("Else"), HI)}, now
    ) == (Latest(first=2, previous_id=1))
    with TraceDatabase(tmp_path / "traces.db") as traces:
        write_previous(traces.connection, 3, 2)
    with CallReader.open(tmp_path / "traces.db") as reader:
        call = reader.find_call(3)
        assert call is not None
        found = find_latest(call, list(read_messages([HELLO, HI, MORE])), reader)
    assert found == Latest(first=3, previous_id=2, changed=1), "its first message was edited"


def test_calls_of_other_sessions_and_agents_are_not_the_call_before(latest_of):
    others: list[dict[str, Any]] = [{"session_id": "t"}, {"session_id": None}, {"agent_id": "a"}]
    calls = [{"request_body": body(HELLO)} | other for other in others]
    assert latest_of(*calls, {"request_body": body(HELLO, HI)}) == Latest()


def test_messages_are_counted_where_the_body_before_is_gone(latest_of):
    found = latest_of({"message_count": 2}, {"request_body": body(HELLO, HI, MORE)})
    assert found == Latest(first=3, previous_id=1, is_counted=True)
