"""The pages of sessions: the list, one session, and both as JSON."""

import json
import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from html import unescape

import pytest

from dashboard.sessions import opened
from dashboard.sessions.story import story
from metering.tool_results import ToolResult
from metering.tool_uses import ToolUse
from runtime import clock
from store import database
from store.annotation_rules import Subject
from store.traces import annotations
from store.traces.database import TraceDatabase
from store.traces.sessions import session_list
from tests.dashboard.pages import words_of
from wire.title import find_title

HOUR = "2026-03-01T10:"


def call(minute, session="a", **changes):
    at = f"{HOUR}{minute:02}:00.000Z"
    return {"session_id": session, "created_at": at, "duration_ms": 1_000.0} | changes


def lines(page):
    """The turns of a page as text."""
    found = re.findall(r'<li class="line.*?</li>', page.text, re.S)
    return [words_of(line) for line in found]


def events(page):
    """The lines between the turns of a page as text."""
    found = re.findall(r'<li class="event.*?</li>', page.text, re.S)
    return [words_of(event) for event in found]


def test_before_the_first_session_the_list_says_what_to_do(ann):
    assert "No session has been recorded yet" in ann.get("/sessions").text
    ann.record(session_id=None)
    assert "No session has been recorded yet" in ann.get("/sessions").text
    assert ann.get("/sessions.json").json() == {"items": [], "nextCursor": None, "hasMore": False}


def test_the_session_that_ended_last_is_first(ann):
    ann.record(call(1, "old"), call(2, "busy"), call(30, "old"), call(31, None), call(3, "busy"))
    items = ann.get("/sessions.json").json()["items"]
    assert [(item["session_id"], item["calls"]) for item in items] == [("old", 2), ("busy", 2)]
    assert (items[0]["started_at"], items[0]["ended_at"]) == (
        f"{HOUR}01:00.000Z",
        f"{HOUR}30:01.000Z",
    )
    assert items[0]["cost_cents"] == 2.5
    page = ann.get("/sessions").text
    assert page.index('href="/sessions/old"') < page.index('href="/sessions/busy"')


def test_the_list_follows_the_calls_after_those_that_it_has(ann):
    ann.record(call(1, "old"), call(2, "busy"), call(3, None))
    assert 'id="live" data-after="3"' in ann.get("/sessions").text


def test_sessions_of_the_week_can_be_listed_by_cost(ann):
    now = clock.now()
    for days, name, cents in ((1, "cheap", 5), (2, "dear", 500), (8, "old", 9_000)):
        at = clock.format_ms(now - timedelta(days=days))
        ann.record(session_id=name, created_at=at, cost_cents=Decimal(cents))
    found = ann.get("/sessions.json?order=cost").json()
    assert [item["session_id"] for item in found["items"]] == ["dear", "cheap"]
    assert (found["nextCursor"], found["hasMore"]) == (None, False)
    page = ann.get("/sessions?order=cost").text
    assert page.index('href="/sessions/dear"') < page.index('href="/sessions/cheap"')
    assert 'href="/sessions?order=cost"' in ann.get("/sessions").text


def test_every_session_is_on_one_page_of_the_list(ann):
    ann.record(*(call(minute, f"s{minute}") for minute in range(25)))
    seen, more = [], ""
    for count in (10, 10, 5):
        page = ann.get(f"/sessions.json?limit=10{more}").json()
        assert len(page["items"]) == count
        seen += [item["session_id"] for item in page["items"]]
        more = f"&cursor={page['nextCursor']}"
    assert (page["nextCursor"], page["hasMore"]) == (None, False)
    assert seen == [f"s{minute}" for minute in reversed(range(25))]


def test_the_list_goes_on_with_older_sessions(ann):
    ann.record(*(call(minute, f"s{minute}") for minute in range(55)))
    first = ann.get("/sessions").text
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = ann.get(older).text
    assert 'href="/sessions/s5"' in first
    assert 'href="/sessions/s4"' in second
    assert "Older sessions" not in second


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=x",
        f"limit=000000001{'9' * 5000}",
        "cursor=x",
        "cursor=WzFd",
        "order=x",
    ],
)
def test_a_bad_limit_or_cursor_is_refused(ann, query):
    ann.record(call(1))
    response = ann.get(f"/sessions.json?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["message"]


def test_a_session_has_its_agents_and_turns(ann):
    ann.record(
        call(1, message_count=1),
        call(2, agent_id="sub", cost_cents=Decimal("0.5"), changed_by_upstream="cleared,summed_up"),
        call(3, outcome="upstream_error", status_code=529, cost_cents=0, cost_items=()),
        call(4, "other"),
    )
    session = ann.get("/sessions/a.json").json()
    assert (session["calls"], session["cost_cents"]) == (3, 1.75)
    assert session["agents"] == [
        {"agent_id": None, "parent_agent_id": None, "calls": 2, "cost_cents": 1.25},
        {"agent_id": "sub", "parent_agent_id": None, "calls": 1, "cost_cents": 0.5},
    ]
    turns = session["turns"]
    assert [turn["outcome"] for turn in turns] == ["complete", "complete", "upstream_error"]
    assert [turn["id"] for turn in turns] == [1, 2, 3]
    assert turns[1]["agent_id"] == "sub"
    assert [turn["changed_by_upstream"] for turn in turns] == [None, "cleared,summed_up", None]
    assert turns[0].keys() == {
        "id", "entry_id", "agent_id", "created_at", "model", "cost_cents", "outcome",
        "tools", "said_text",
        "changed_by_upstream",
    }  # fmt: skip


def test_a_session_says_what_was_asked_and_done(ann):
    failed = ToolUse(tool="Bash", target="pytest", result=ToolResult(9, "exit 1"))
    found = ToolUse(tool="find", server="maps")
    ann.record(
        call(1, title_text="Mend it", tool_uses=(failed, found), said_text="I look."),
        call(2, agent_id="sub", title_text="Look there"),
        call(3, title_text="Mend it"),
        call(4, title_text="Now this"),
    )
    session = ann.get("/sessions/a.json").json()
    assert session["failed_tools"] == 1
    cents = session["turns"][0]["cost_cents"]
    assert session["prompts"] == [
        {"title": "Mend it", "first_turn": 1, "turns": 3, "cost_cents": 3 * cents},
        {"title": "Now this", "first_turn": 4, "turns": 1, "cost_cents": cents},
    ]
    first, *others = [(turn["tools"], turn["said_text"]) for turn in session["turns"]]
    assert first == (
        [
            {"tool": "Bash", "server": None, "target": "pytest", "problem": "exit 1"},
            {"tool": "find", "server": "maps", "target": None, "problem": None},
        ],
        "I look.",
    )
    assert others == [([], None)] * 3
    with closing(sqlite3.connect(ann.path)) as db:
        assert db.execute("select prompts from sessions").fetchone() == (2,)


def test_a_session_is_told_by_its_prompts(ann):
    ann.record(
        call(1, message_count=1, title_text="Mend the test", said_text="I look at it."),
        call(2, message_count=3, title_text="Mend the test", said_text="Mended."),
        call(3, message_count=5, outcome="upstream_error", status_code=529, title_text="Now this",
             error_type="overloaded_error", cost_cents=0, cost_items=()),
        call(4, message_count=5, title_text="Now this", said_text="Done."),
        call(10, agent_id="sub", title_text="Find all callers", said_text="Two."),
    )  # fmt: skip
    page = ann.get("/sessions/a")
    first, second, again, sub = lines(page)
    assert (first.split()[:2], first.split()[3:]) == (
        ["1", "10:01:00"],
        ["I", "look", "at", "it.", "1.0", "s", "$0.013"],
    )
    assert "Says" in page.text
    assert second.split()[2] == "Answer"
    assert "Done." in again
    assert sub.split()[0] == "4"
    failure, pause = events(page)
    assert failure.startswith(
        "529 overloaded_error from upstream; the client waited 59.0 s and sent turn 3"
    )
    assert pause == "6 min pause"
    assert page.text.count('class="prompt"') == 2
    assert "Find all callers" in page.text
    (told,) = re.findall(
        r"\$0\.050 for 2 prompts in 4 turns\..* One call failed\.", words_of(page.text)
    )
    assert "One subagent took $0.013 of it." in told


def test_where_no_text_is_kept_a_line_has_tokens(ann):
    ann.record(call(1, output_tokens=318))
    assert "Answer 318 tokens of output" in lines(ann.get("/sessions/a"))[0]


def test_of_a_very_long_session_the_last_turns_are_told(ann, monkeypatch):
    ann.record(*(call(minute) for minute in range(8)))
    monkeypatch.setattr(opened, "MOST_TURNS", 3)
    page = ann.get("/sessions/a")
    assert "The first 5 calls are not told here" in page.text
    assert [line.split()[0] for line in lines(page)] == ["6", "7", "8"]


def test_a_long_story_has_parts_and_the_map_has_all(ann, monkeypatch):
    monkeypatch.setattr(story, "PAGE_TURNS", 2)
    ann.record(*(call(minute, prompt_id=f"p{minute // 2}") for minute in range(6)))
    first, last = ann.get("/sessions/a"), ann.get("/sessions/a?page=3")
    assert [line.split()[0] for line in lines(first)] == ["1", "2"]
    assert [line.split()[0] for line in lines(last)] == ["5", "6"]
    for page in (first, last):
        assert page.text.count("data-n=") == 6
    assert 'href="/sessions/a?page=3#t5"' in first.text
    assert 'href="#t5"' in last.text
    assert ann.get("/sessions/a?page=9").text == last.text
    assert ann.get("/sessions/a?page=x").status_code == 400


def test_a_turn_unfolds_where_it_stands(ann, cid):
    ann.record(call(1))
    part = ann.get("/sessions/a/turns/1")
    assert part.status_code == 200
    assert "<html" not in part.text
    assert 'href="/calls/1"' in part.text
    assert ann.get("/sessions/a/turns/2").status_code == 404
    assert cid.get("/sessions/a/turns/1").status_code == 404


def test_a_prompt_is_read_whole_where_it_stands(ann):
    reminder = {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"}
    prompt = f"Mend the test. {'Look at each file. ' * 9}The end."
    messages = [
        {"role": "user", "content": [reminder, {"type": "text", "text": prompt}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "2 failed"}]},
    ]  # fmt: skip
    body = json.dumps({"model": "m", "messages": messages}).encode()
    answer = json.dumps({"content": [{"type": "text", "text": "Mended."}]}).encode()
    title = find_title(messages)
    ann.record(call(1, title_text=title, request_body=body, response_body=answer))
    (part,) = re.findall(r'<details class="whole" data-part="([^"]+)"', ann.get("/sessions/a").text)
    asked = words_of(ann.get(part).text)
    assert asked.startswith("Mend the test. Look at each file.")
    assert "The end." in asked
    assert not {"Be brief", "2 failed", "Mended"} & set(
        re.findall(r"Be brief|2 failed|Mended", asked)
    )
    both = words_of(ann.get("/sessions/a/turns/1?parts=both").text)
    assert re.search(r"Asked Mend the test.*The end\. Answered Mended\.", both)
    assert ann.get("/sessions/a/turns/1?parts=x").status_code == 400


def test_questions_of_a_chat_stand_above_their_answers(ann):
    ann.record(*(call(n, title_text=f"Question {n}?", said_text=f"It is {n}.") for n in (1, 2, 3)))
    page = ann.get("/sessions/a")
    assert "Asked Answer Question 2? It is 2." in lines(page)[1]
    assert page.text.count('data-parts="both"') == 3


def test_each_tab_says_in_short_what_the_session_was(ann):
    ann.record(call(1, title_text="Mend it"), call(2, outcome="upstream_error"))
    for tab in ("calls", "tools", "savings"):
        told = words_of(ann.get(f"/sessions/a/{tab}").text)
        assert "for 1 prompt in 2 calls. 1 call or tool failed." in told


@pytest.mark.parametrize("name", ["a b/c?d", "<b>x</b>", "é.json", "\u202eabc"])
def test_any_id_has_a_page(ann, name):
    ann.record(call(1, name))
    page = ann.get("/sessions")
    (address,) = re.findall(r'href="(/sessions/[^"]+)"', page.text)
    told = ann.get(address)
    assert told.status_code == 200
    assert "<b>x</b>" not in told.text
    without_fields = re.sub(r' (?:value|data-session)="[^"]*"', "", told.text)
    assert "\u202e" not in without_fields, "fields send the id as it is"
    assert ann.get(f"{address}.json").json()["session_id"] == name


def test_a_session_without_words_is_named_by_its_id(ann):
    ann.record(call(1, "b3e0"))
    assert ">b3e0</bdi></a>" in ann.get("/sessions").text
    assert "<bdi>Session b3e0</bdi></h1>" in ann.get("/sessions/b3e0").text


def test_a_session_that_is_not_there_is_404(ann):
    assert ann.get("/sessions/gone").status_code == 404
    ann.record(call(1))
    assert ann.get("/sessions/gone").status_code == 404
    assert ann.get("/sessions/gone.json").json()["error"]["code"] == "not_found"


def test_times_of_a_page_can_be_read_by_machines(ann):
    ann.record(call(1))
    for instant in re.findall(r'datetime="([^"]+)"', ann.get("/sessions/a").text):
        clock.parse_instant(instant)


def test_the_list_is_filtered_by_what_calls_are(ann):
    ann.record(
        call(1, "plain"),
        call(2, "failing", outcome="upstream_error", status_code=529),
        call(3, "other", slug="nightly"),
    )

    def listed(query):
        return [each["session_id"] for each in ann.get(f"/sessions.json?{query}").json()["items"]]

    assert listed("") == ["other", "failing", "plain"]
    assert listed("failed=1") == ["failing"]
    assert listed("endpoint=nightly") == ["other"]
    assert listed("endpoint=nightly&failed=1") == []
    page = ann.get("/sessions?endpoint=nightly").text
    assert 'href="/sessions/other"' in page
    assert 'href="/sessions/plain"' not in page
    assert "Endpoint <b>nightly</b>" in page
    assert "where u.session_id is not null and u.slug = &#39;nightly&#39;" in page
    empty = ann.get("/sessions?endpoint=nightly&failed=1").text
    assert "No session matches" in empty
    assert 'href="/sessions?failed=1">Endpoint nightly</a>' in empty


def test_a_list_of_few_that_match_ends_after_some_calls_and_goes_on(ann, monkeypatch):
    monkeypatch.setattr(session_list, "SEARCHED", 2)
    for number, slug in enumerate(("rare", "often", "often", "often")):
        ann.record(
            session_id=f"s{number}", slug=slug, created_at=f"2026-01-0{number + 1}T10:00:00.000Z"
        )
    first = ann.get("/sessions?endpoint=rare").text
    assert "None of the newest sessions matches" in first
    (address,) = re.findall(r'<a href="([^"]*)">look on</a>', first)
    assert '<a href="/sessions/s0">' in ann.get(unescape(address)).text


def annotate(ann, session, label, note):
    """Give a session a label and a note."""
    given = annotations.Label(label=label, by=None, at="2026-01-01T00:00:00.000Z")
    said = annotations.Note(text=note, by=None, at="2026-01-01T00:00:00.000Z")
    with TraceDatabase(ann.path) as traces, database.immediate(traces.connection):
        annotations.write_label(traces.connection, Subject("session", session), session, given)
        annotations.write_note(traces.connection, Subject("session", session), session, said)


@pytest.mark.parametrize("tab", ["", "/context", "/tools", "/savings", "/calls"])
def test_labels_and_the_note_are_on_each_tab_of_a_session(ann, tab):
    ann.record(session_id="a")
    annotate(ann, "a", "flaky test", "the server was restarted")
    page = ann.get(f"/sessions/a{tab}").text
    assert '<a class="tag label" href="/sessions?label=flaky%20test">' in page
    assert "the server was restarted" in words_of(page)


def test_a_label_in_the_list_leads_to_the_others_with_it(ann):
    ann.record(session_id="a")
    ann.record(session_id="b")
    annotate(ann, "a", "flaky test", "a note")
    (address,) = re.findall(r'<a class="tag label" href="([^"]*)">', ann.get("/sessions").text)
    assert address == "/sessions?label=flaky+test"
    listed = ann.get(address).text
    assert '<a href="/sessions/a">' in listed
    assert '<a href="/sessions/b">' not in listed


def test_the_menu_of_filters_counts_the_newest_sessions(ann):
    ann.record(call(1, "a"), call(2, "b"), call(3, "c", slug="nightly"))
    page = words_of(ann.get("/sessions").text)
    assert "A call failed A tool failed Broke the cache Endpoint default 2 nightly 1" in page


def test_the_menu_of_filters_has_models_users_projects_and_labels(ann):
    said = {"attributed_user": "mia", "project": "checkout"}
    ann.record(call(1, "a", model="claude-opus-5", **said), call(2, "b", model="claude-haiku-4-5"))
    annotate(ann, "a", "flaky test", "a note")
    page = ann.get("/sessions").text
    menu = "Model claude-haiku-4-5 claude-opus-5 User mia Project checkout Label flaky test"
    assert menu in words_of(page)
    for address, found in (("?model=claude-haiku-4-5", "b"), ("?tag.project=checkout", "a")):
        assert f'href="/sessions{address}"' in page
        assert re.findall(r'<a href="/sessions/(\w)">', ann.get(f"/sessions{address}").text) == [
            found
        ]


def test_the_tools_of_a_session_are_summed(ann):
    fine = ToolUse(tool="Read", target="/p/a/x.py", result=ToolResult(2_000, None))
    broken = ToolUse(tool="Bash", target="pytest", result=ToolResult(90, "exit 1"))
    ann.record(call(1, tool_uses=(fine, broken)), call(2, tool_uses=(fine,)))
    page = words_of(ann.get("/sessions/a/tools").text)
    assert "Read client 2 0 2.0k 4.0k" in page
    assert "Bash client 1 1 exit 1 90 90" in page
    assert "x.py Read 1 2 4.0k" in page


@pytest.mark.parametrize("tab", ["", "/tools", "/calls", "/context", "/savings"])
def test_tabs_have_their_main_figures(ann, tab):
    read, found = ToolUse(tool="Read"), ToolUse(tool="find", server="maps")
    ann.record(call(1, tool_uses=(read, read)), call(2, tool_uses=(read, found)), call(3, "b"))
    with closing(sqlite3.connect(ann.path)) as db, db:
        db.execute(
            "insert into session_savings (session_id, method, computed_at, calls, conversations, opened, cents)"
            " values ('a', 1, '2026-03-01T11:00:00.000Z', 2, 1, 1, 102.0)"
        )
    assert "Tools 2 Savings $1.02 Calls 2 SQL" in words_of(ann.get(f"/sessions/a{tab}").text)
    assert "Tools Savings Calls 1 SQL" in words_of(ann.get(f"/sessions/b{tab}").text)


def test_tools_of_a_session_have_their_cost(ann):
    ann.record(call(1, tool_uses=(ToolUse(tool="Read"), ToolUse(tool="find", server="maps"))))
    costs = [
        ("", "Read", 0.2, 1.0, 3.0),
        ("", "Edit", 0.4, 0.0, 0.0),
        ("maps", "get", 0.5, 0.0, 0.0),
        ("", "", 0.0, 0.7, 0.0),
    ]
    with closing(sqlite3.connect(ann.path)) as db, db:
        db.executemany(
            "insert into session_tools (day, session_id, slug, credential, server, tool, uses, failed,"
            " result_tokens, definition_cents, written_cents, carried_cents)"
            " values ('2026-03-01', 'a', 'default', '', ?, ?, 0, 0, 0, ?, ?, ?)",
            costs,
        )
    response = ann.get("/sessions/a/tools")
    page = words_of(response.text)
    assert "Read client 1 0 — 0 $0.042" in page
    assert "find maps 1 0 — 0 —" in page
    assert 'title="Definition $0.002, results $0.010, carried $0.030"' in response.text
    assert "Never called: maps get , Edit . Their definitions cost $0.009." in page


def test_a_session_says_for_whom_it_was(ann):
    ann.record(call(1, project="a & b", attributed_user="ann@example.org"), call(2, "b"))
    page = ann.get("/sessions/a").text
    assert 'href="/sessions?tag.project=a%20%26%20b"' in page
    assert "user: ann@example.org" in words_of(page)
    assert "tag.project" not in ann.get("/sessions/b").text
    assert "/sessions/a" in ann.get("/sessions?tag.project=a%20%26%20b").text


def test_a_session_without_tools_says_so(ann):
    ann.record(call(1))
    assert "No tool was used" in ann.get("/sessions/a/tools").text
    assert ann.get("/sessions/gone/tools").status_code == 404


def test_the_calls_of_a_session_are_a_table(ann):
    ann.record(
        call(1, said_text="I look.", title_text="Mend it"),
        call(2, outcome="upstream_error", status_code=529, error_type="overloaded_error"),
    )
    page = ann.get("/sessions/a/calls").text
    assert 'href="/calls/2"' in page
    assert "✕ 529 overloaded_error" in words_of(page)
    assert "Answer I look." in words_of(page)
