"""Cache breaks, sessions that no client named and tools that failed, on pages and in JSON."""

import html
import re
import sqlite3
from contextlib import closing

import pytest

from store.traces.paths import trace_path
from tests.conversations.sessions import assistant, conversation, request, text, user
from tests.dashboard.pages import words_of
from tests.recorder.conversations import Recording
from tests.recorder.test_threads import Client, nothing_read, turn

LOG = "It sails. " * 1_000  # some 2,500 tokens
FIRST, SECOND, EDITED = (
    request(*conversation(turns, opening=f"A {nation} ship. {LOG}"))
    for turns, nation in ((1, "British"), (2, "British"), (3, "<b>American</b>"))
)
USED = assistant({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}})
FAILED = user({"type": "tool_result", "tool_use_id": "t1", "content": "No.", "is_error": True})
DETAIL = "The cache broke at message 1: “British” became “<b>American</b>”."


@pytest.fixture
def recording(settings, ann):
    recording = Recording(settings.data_dir, ann.organization_id)
    yield recording
    recording.close()


def read(recording, sql):
    with closing(sqlite3.connect(trace_path(recording.data_dir, recording.owner))) as connection:
        return connection.execute(sql).fetchall()


def test_a_break_is_in_the_list_the_session_and_the_page_of_the_call(ann, cid, recording):
    for body in (FIRST, SECOND, EDITED):
        recording.send(body)
    ((tokens, cents),) = read(
        recording,
        "select cache_creation_input_tokens, (select sum(quantity * (3.75 - 0.30) / 10000)"
        " from usage_cost where usage_id = 3 and component = 'cache_write_5m') from usage where id = 3",
    )
    (listed,) = ann.get("/sessions.json").json()["items"]
    assert listed["cache_breaks"] == 1
    (found,) = ann.get("/sessions/s1.json").json()["cache_breaks"]
    assert found.keys() == {
        "entry_id", "cause", "detail", "tokens", "extra_cost_cents", "estimated"
    }  # fmt: skip
    assert (found["entry_id"], found["cause"], found["estimated"]) == ("call-3", "messages", False)
    assert found["detail"] == DETAIL
    assert 2_000 < found["tokens"] <= tokens
    assert found["extra_cost_cents"] == pytest.approx(found["tokens"] * (3.75 - 0.30) / 10_000)
    assert found["extra_cost_cents"] <= cents
    page = ann.get("/sessions/s1").text
    assert page.count('id="break-3"') == 1
    assert page.count('<path class="break"') == 1, "the mark in the map"
    said = "message 1: “British” became “&lt;b&gt;American&lt;/b&gt;”."
    cost = f"{found['tokens']:,} tokens were written again: $"
    for text_ in (page, ann.get("/calls/3").text):
        assert said in text_
        assert cost in words_of(text_)
    assert "How this was measured" in ann.get("/calls/3").text
    assert "How this was measured" not in ann.get("/calls/2").text
    assert cid.get("/sessions/s1.json").status_code == 404
    assert "British" not in cid.get("/sessions").text


def test_calls_without_a_session_id_that_continue_one_another_are_a_session(ann, cid, recording):
    for body in (FIRST, SECOND, EDITED):
        recording.send(body, session_id=None)
    recording.send(request(user(text("Something else."))), session_id=None)
    (item,) = ann.get("/sessions.json").json()["items"]
    assert (item["session_id"], item["calls"], item["cache_breaks"]) == ("unnamed-1", 3, 1)
    opened = ann.get("/sessions/unnamed-1.json").json()
    assert [turn["id"] for turn in opened["turns"]] == [1, 2, 3]
    assert [agent["calls"] for agent in opened["agents"]] == [3]
    assert [each["entry_id"] for each in opened["cache_breaks"]] == ["call-3"]
    ((cents,),) = read(recording, "select sum(cost_cents) from usage where id <= 3")
    assert opened["cost_cents"] == pytest.approx(cents)
    page = ann.get("/sessions/unnamed-1").text
    assert "no session id from the client" in page
    (table,) = set(re.findall(r'href="(/traces/usage\?_through=[^"]+)"', page))
    assert "unnamed_calls" in table
    call = ann.get("/calls/2").text
    assert 'href="/sessions/unnamed-1"' in call
    assert 'href="/calls/1" rel="prev"' in call
    assert 'href="/calls/3" rel="next"' in call
    assert 'href="/sessions/' not in ann.get("/calls/4").text.partition("<main")[2]
    assert read(recording, "select session_id, session from usage_log order by id") == [
        (None, "unnamed-1"), (None, "unnamed-1"), (None, "unnamed-1"), (None, None)
    ]  # fmt: skip
    assert cid.get("/sessions/unnamed-1").status_code == 404


def test_the_overview_counts_an_unnamed_session_by_its_name(ann, cid, recording):
    for body in (FIRST, SECOND):
        recording.send(body, session_id=None)
    recording.send(request(user(text("Something else."))), session_id=None)
    recording.send(FIRST, session_id="named")
    sums = read(
        recording,
        "select iif(id < 3, 'unnamed-1', session_id), count(*), sum(cost_cents),"
        " sum(output_tokens) from usage group by 1",
    )
    day = "2026-11-20"
    span = f"span={day}..{day}"
    overview = ann.get(f"/overview.json?{span}&by=session").json()
    assert sorted(
        (each["name"] or "", each["calls"], each["cost_cents"], each["output_tokens"])
        for each in overview["groups"]
    ) == [
        (name or "", calls, pytest.approx(cents, abs=1e-6), output)
        for name, calls, cents, output in sorted(sums, key=lambda row: row[0] or "")
    ]
    for name, calls in (("unnamed-1", 2), ("(none)", 1), ("named", 1)):
        only = ann.get(f"/overview.json?{span}&session={name}").json()
        assert only["totals"]["calls"] == calls, name
        by_hour = ann.get(f"/overview.json?{span}&by=session&endpoint=default").json()
        assert by_hour["totals"]["calls"] == 4
    page = ann.get(f"/?period={day}..{day}&by=session&measure=calls").text
    assert 'href="/sessions/unnamed-1"' in page
    (of_none,) = set(re.findall(r'href="(/calls[^"]*session=%28none%29[^"]*)"', page))
    listed = ann.get(html.unescape(of_none)).text
    assert re.findall(r'<tr data-key="(\d+)"', listed) == ["3"]
    assert "unnamed-1" not in cid.get(f"/?period={day}..{day}&by=session").text


def test_a_tool_that_failed_is_marked_at_the_turn_that_used_it(ann, recording):
    messages = [user(text(LOG)), USED, FAILED]
    recording.send(request(*messages[:1]))
    recording.send(request(*messages))
    recording.send(request(*messages, assistant(text("I see.")), user(text("Go on."))))
    page = ann.get("/sessions/s1").text
    lines = re.findall(r'<li class="line.*?</li>', page, re.S)
    assert ["data-failed" in line for line in lines] == [True, False, False]
    assert page.count('<path class="fail"') == 1, "the mark in the map"
    assert "One tool failed." in page


def test_a_compaction_is_marked_as_one_and_not_as_a_break(ann, recording):
    recording.send(FIRST)
    recording.send(SECOND)
    summary = "This session is being continued from a previous conversation. It was on ships."
    recording.send(request(user(text(summary))))
    page = ann.get("/sessions/s1").text
    assert "Compacted from" in page
    assert page.count('id="compact-3"') == 1
    assert 'id="break-' not in page
    assert ann.get("/sessions/s1.json").json()["cache_breaks"] == []


def test_a_break_of_a_thread_is_said_by_whole_prompts(ann, recording):
    client = Client(recording, session_id="s1")
    client.create(turn(1))
    client.go_on(turn(2))
    choice = {"tool_choice": {"type": "any"}}
    client.go_on(turn(3), settings=choice, answer=nothing_read("broken"))
    (found,) = ann.get("/sessions/s1.json").json()["cache_breaks"]
    assert (found["entry_id"], found["cause"]) == ("call-3", "messages")
    page, call = ann.get("/sessions/s1").text, ann.get("/calls/3").text
    for said in (found["detail"], page, call):
        assert "tool choice" in said
    assert "removed" not in found["detail"]
    assert "The request names the call before." in call
    assert "not recorded, because" not in call
