"""Judgements of calls that go through the recorder."""

import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings, strategies as st

from conversations.prompt_analysis import PromptAnalysis
from conversations.units import MAX_PROMPT_UNITS
from store.traces.calls.cache_breaks import find_break
from store.traces.calls.predecessors import find_previous
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.conversations.sessions import assistant, conversation, request, text, user
from tests.conversations.upstream_cache import UpstreamCache
from tests.recorder.conversations import Recording

LOG = "It sails. " * 1_000  # some 2,500 tokens
TURNS, EDITED = (
    [request(*conversation(turns, opening=f"A {nation} ship. {LOG}")) for turns in range(1, 6)]
    for nation in ("British", "American")
)
BROKEN = [("call-1", None, None), ("call-2", "call-1", None), ("call-3", "call-2", "messages")]


@pytest.fixture
def recording(tmp_path):
    recording = Recording(tmp_path)
    yield recording
    recording.close()


def open_traces(recording, owner="org"):
    return closing(sqlite3.connect(trace_path(recording.data_dir, owner)))


def test_a_break_is_stored_with_what_is_measured_and_what_is_inferred(recording):
    for body in (*TURNS[:2], EDITED[2]):
        recording.send(body)
    assert recording.judged() == BROKEN
    with open_traces(recording) as connection:
        found = find_break(connection, 3)
        assert find_break(connection, 2) is None
        assert find_previous(connection, 3) == 2
        assert find_previous(connection, 1) is None
    assert found is not None
    (usage,) = recording.read("select * from usage where id = 3")
    (before,) = recording.read("select * from usage where id = 2")
    left = before["cache_read_input_tokens"] + before["cache_creation_input_tokens"]
    assert (found.previous_entry_id, found.found_by, found.method) == ("call-2", "overlap", 1)
    assert (found.prefix_tokens, found.read_tokens) == (left, usage["cache_read_input_tokens"])
    assert found.tokens == left - usage["cache_read_input_tokens"]
    assert found.gap_ms == 10_000
    assert found.extra_cost_cents == pytest.approx(found.tokens * (3.75 - 0.30) / 10_000)
    assert not found.estimated
    assert found.detail == "The cache broke at message 1: “British” became “American”."


def test_a_session_that_only_grows_breaks_nothing(recording):
    for body in TURNS:
        recording.send(body)
    assert [each[2] for each in recording.judged()] == [None] * 5
    assert [each[1] for each in recording.judged()] == [
        None,
        "call-1",
        "call-2",
        "call-3",
        "call-4",
    ]


def test_a_restart_of_the_recorder_between_two_turns_hides_no_break(recording):
    for body in (*TURNS[:2], EDITED[2]):
        recording.send(body)
        recording.restart()
    assert recording.judged() == BROKEN


def test_a_restart_reads_again_what_a_call_without_bodies_had_left(recording):
    for body in (TURNS[0], TURNS[1], EDITED[2]):
        recording.send(body, metadata_only=True, message_count=len(body["messages"]))
        recording.restart()
    assert recording.judged()[2] == ("call-3", "call-2", "unknown")
    (found,) = recording.read("select found_by, detail, tokens from cache_breaks")
    assert found["found_by"] == "counts"
    assert found["tokens"] > 2_000
    assert "American" not in found["detail"]


def test_all_calls_of_one_batch_are_judged_as_if_they_came_one_by_one(recording):
    for body in (*TURNS[:2], EDITED[2]):
        recording.send(body, record=False)
    recording.record()
    assert recording.judged() == BROKEN


@pytest.mark.parametrize("batched", [True, False])
def test_a_call_that_ends_after_its_successor_is_its_predecessor_all_the_same(recording, batched):
    """The names of the files, and so the order of storing, are those in which the calls end."""
    recording.send(TURNS[1])
    second, third = recording.answer(TURNS[2], 20.0), recording.answer(EDITED[3], 30.0)
    recording.spool(EDITED[3], at_s=30.0, answer=third)
    if not batched:
        recording.record()
        assert recording.judged()[1] == ("call-2", "call-1", "messages")
        assert recording.read("select cache_breaks from sessions") == [{"cache_breaks": 1}]
    recording.spool(TURNS[2], at_s=20.0, answer=second)
    recording.record()
    assert recording.judged() == [
        ("call-1", None, None),
        ("call-3", "call-1", None),
        ("call-2", "call-3", "messages"),
    ]
    assert recording.read("select cache_breaks, calls from sessions") == [
        {"cache_breaks": 1, "calls": 3}
    ]


@pytest.mark.parametrize("batched", [True, False])
def test_a_break_is_none_when_the_call_that_was_continued_is_stored_later(recording, batched):
    def unmark(block):
        return {name: value for name, value in block.items() if name != "cache_control"}

    recording.send(TURNS[0])
    before, call = (json.loads(json.dumps(body), object_hook=unmark) for body in TURNS[1:3])
    recording.spool(call, at_s=30.0)
    if not batched:
        recording.record()
        assert [each[:2] for each in recording.judged()] == [
            ("call-1", None),
            ("call-2", "call-1"),
        ]
        assert recording.read("select cache_breaks from sessions") == [{"cache_breaks": 1}]
    recording.spool(before, at_s=20.0)
    recording.record()
    (_, before, call) = recording.judged()
    assert before[:2] == ("call-3", "call-1")
    assert before[2] is not None
    assert call == ("call-2", "call-3", None), "that one had left nothing in the cache"
    assert recording.read("select cache_breaks from sessions") == [{"cache_breaks": 1}]


def test_failed_calls_and_side_calls_are_no_predecessors(recording):
    recording.send(TURNS[0])
    recording.send(TURNS[1], status_code=529)
    title = {"model": TURNS[0]["model"], "max_tokens": 1, "messages": TURNS[0]["messages"]}
    recording.send(title)
    recording.send(TURNS[1])
    assert recording.judged() == [
        ("call-1", None, None),
        ("call-2", "call-1", None),
        ("call-3", None, None),
        ("call-4", "call-1", None),
    ]


def test_two_organisations_know_nothing_of_each_other(recording):
    recording.send(TURNS[0], owner="org")
    recording.send(TURNS[1], owner="other")
    assert recording.read("select * from predecessors", owner="other") == []


def test_retention_takes_the_judgements_of_the_calls_that_it_removes(recording):
    for body in (*TURNS[:2], EDITED[2]):
        recording.send(body)
    with TraceDatabase(trace_path(recording.data_dir, "org")) as traces:
        traces.prune(before="9999", pause=lambda _: None)
        assert list(traces.verify()) == []
    for table in ("predecessors", "cache_breaks", "unnamed_calls", "sessions"):
        assert recording.read(f"select * from {table}") == []  # noqa: S608 - four names


def test_the_predecessor_that_retention_removed_is_none(recording):
    for body in TURNS[:2]:
        recording.send(body)
    (last,) = recording.read("select created_at from usage where id = 2")
    with TraceDatabase(trace_path(recording.data_dir, "org")) as traces:
        traces.prune(before=last["created_at"], pause=lambda _: None)
        assert find_previous(traces.connection, 2) is None
        assert list(traces.verify()) == []


def test_a_call_that_cannot_be_judged_is_stored_and_the_log_says_so_once(
    recording, monkeypatch, caplog
):
    def fail(*_, **__):
        raise RuntimeError("a mistake of ours")

    with monkeypatch.context() as broken:
        broken.setattr("recorder.judge.find_predecessor", fail)
        for body in TURNS[:3]:
            recording.send(body)
    assert len(recording.read("select id from usage")) == 3
    assert caplog.text.count("without looking for a cache break") == 1


def test_a_request_of_too_many_blocks_counts_as_one_without_a_body(recording):
    vast = request(user(*[text("ship")] * (MAX_PROMPT_UNITS + 1)), user(text("Go on.")))
    recording.send(vast)
    recording.send(vast)
    recording.send(TURNS[0], session_id="s2")
    recording.send(TURNS[1], session_id="s2")
    assert recording.judged() == [
        ("call-1", None, None),
        ("call-2", "call-1", None),
        ("call-3", None, None),
        ("call-4", "call-3", None),
    ]
    assert PromptAnalysis().read_whole(vast, b"") is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not JSON",
        b"[]",
        b"{" * 100_000,
        b'{"messages":' + b"[" * 50_000,
        b'{"messages":[{"role":"user","content":[' + b"{}," * 200_000 + b"{}]}]}",
        b'{"messages":{"a":1},"tools":7,"system":{"type":"text"}}',
        b'{"messages":[{"role":"user","content":"\\ud800\\u0000"}]}',
    ],
)
def test_whatever_a_request_is_its_entry_is_stored(recording, body):
    answer = recording.answer(TURNS[0])
    recording.spool(body, answer=answer)
    recording.spool(body, answer=answer)
    recording.record()
    assert len(recording.read("select id from usage")) == 2


def test_calls_without_a_session_are_told_apart_by_what_they_continue(recording):
    begin = user(text("When does the train leave?"))
    other = [
        request(begin),
        request(begin, assistant(text("At ten.")), user(text("And the next?"))),
    ]
    for body in (TURNS[0], other[0], TURNS[1], other[1], TURNS[2]):
        recording.send(body, session_id=None)
        recording.restart()
    assert [row["session"] for row in recording.read()] == [
        "unnamed-1",
        "unnamed-2",
        "unnamed-1",
        "unnamed-2",
        "unnamed-1",
    ]
    sums = recording.read("select session_id, calls from sessions order by 1")
    assert [tuple(row.values()) for row in sums] == [("unnamed-1", 3), ("unnamed-2", 2)]
    assert recording.read("select session_id from usage where session_id is not null") == []


def test_independent_prompts_are_in_no_session(recording):
    for number in range(4):
        recording.send(request(*conversation(1, opening=f"Topic {number}. ")), session_id=None)
    assert recording.read("select * from sessions") == []


def test_calls_of_other_credentials_and_after_long_are_not_joined(recording):
    recording.send(TURNS[0], session_id=None)
    recording.send(TURNS[1], session_id=None, credential_hmac="another")
    recording.send(TURNS[1], after_s=5 * 3600, session_id=None)
    assert [row["previous"] for row in recording.read()] == [None, None, None]


@pytest.mark.parametrize("batched", [True, False])
def test_a_first_call_that_ends_last_joins_the_session_of_its_successors(recording, batched):
    first, *later = (recording.answer(TURNS[n], 10.0 * (n + 1)) for n in range(3))
    for turn, answer in enumerate(later, 1):
        recording.spool(TURNS[turn], at_s=10.0 * (turn + 1), answer=answer, session_id=None)
    if not batched:
        recording.record()
    recording.spool(TURNS[0], at_s=10.0, answer=first, session_id=None)
    recording.record()
    assert {row["session"] for row in recording.read()} == {"unnamed-1"}
    assert recording.judged() == [
        ("call-3", None, None),
        ("call-1", "call-3", None),
        ("call-2", "call-1", None),
    ]
    assert recording.read("select calls from sessions") == [{"calls": 3}]


def test_an_unnamed_session_goes_with_its_last_call(recording):
    for body in TURNS[:3]:
        recording.send(body, session_id=None)
    (last,) = recording.read("select created_at from usage where id = 3")
    with TraceDatabase(trace_path(recording.data_dir, "org")) as traces:
        traces.prune(before=last["created_at"], pause=lambda _: None)
        assert recording.read("select calls from sessions") == [{"calls": 3}]
        assert [row["session"] for row in recording.read()] == ["unnamed-1"]
        traces.prune(before="9999", pause=lambda _: None)
    assert recording.read("select * from sessions") == []


@pytest.mark.parametrize("session_id", ["s1", None])
def test_a_batch_that_is_stored_again_after_a_crash_changes_nothing(recording, session_id):
    spooled = {}
    for body in (*TURNS[:2], EDITED[2]):
        recording.send(body, session_id=session_id, record=False)
    for file in (recording.data_dir / "spool").rglob("*.done"):
        spooled[file] = file.read_bytes()
    recording.record()
    tables = ("predecessors", "unnamed_calls", "cache_breaks", "sessions")
    before = [recording.read(f"select * from {table}") for table in tables]  # noqa: S608
    for restarted in (False, True):
        if restarted:
            recording.restart()
        for file, data in spooled.items():
            file.write_bytes(data)
        recording.record()
        assert [recording.read(f"select * from {table}") for table in tables] == before  # noqa: S608


def test_a_batch_that_cannot_be_stored_is_judged_again_with_the_same_result(recording):
    recording.send(TURNS[0])
    with closing(sqlite3.connect(trace_path(recording.data_dir, "org"))) as lock:
        lock.execute("begin immediate")
        recording.send(TURNS[1])
        recording.send(EDITED[2])
        assert len(recording.read("select id from usage")) == 1
    recording.restart()
    recording.record()
    assert recording.judged() == BROKEN


@pytest.fixture(scope="module")
def make_recording(tmp_path_factory):
    """Makes one for each generated example."""
    opened = []

    def make():
        opened.append(Recording(tmp_path_factory.mktemp("data")))
        return opened[-1]

    yield make
    for recording in opened:
        recording.close()


@settings(max_examples=15)
@given(
    steps=st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 400)), max_size=10),
    session=st.sampled_from(["s1", None]),
)
@pytest.mark.slow
def test_no_more_is_missed_than_was_written_or_uncached(make_recording, steps, session):
    """Each step edits the first message or not, starts the recorder again or not, and waits."""
    recording = make_recording()
    for turn, (is_edited, is_restarted, after_s) in enumerate([(False, False, 10), *steps]):
        bodies = EDITED if is_edited else TURNS
        recording.send(bodies[turn % len(bodies)], after_s=after_s, session_id=session)
        if is_restarted:
            recording.restart()
    (sums,) = recording.read(
        "select (select total(tokens) from cache_breaks) as missed,"
        " total(coalesce(cache_creation_input_tokens, 0) + input_tokens) as billed,"
        " (select count(*) from cache_breaks) as breaks from usage"
    )
    assert sums["missed"] <= sums["billed"]
    (booked,) = recording.read("select total(cache_breaks) as breaks from sessions")
    assert booked["breaks"] == sums["breaks"]
    for row in recording.read(
        "select b.tokens, u.cache_creation_input_tokens + u.input_tokens as billed"
        " from cache_breaks as b join usage as u on u.id = b.usage_id"
    ):
        assert row["tokens"] <= row["billed"]


@pytest.mark.slow
@settings(max_examples=10)
@given(order=st.permutations([0, 0, 0, 1, 1, 1]), waits=st.integers(1, 40))
def test_what_other_sessions_do_meanwhile_changes_nothing(make_recording, order, waits):
    """The second session breaks its cache, whatever comes between its calls."""
    recording = make_recording()
    turns = [iter(TURNS[:3]), iter((*TURNS[:2], EDITED[2]))]
    upstreams = [UpstreamCache(), UpstreamCache()]
    for session in order:
        recording.upstream = upstreams[session]
        recording.send(next(turns[session]), after_s=waits, session_id=f"s{session}")
    found = recording.read(
        "select u.session_id, b.cause from cache_breaks as b join usage as u on u.id = b.usage_id"
    )
    assert found == [{"session_id": "s1", "cause": "messages"}]
