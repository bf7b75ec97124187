"""The tabs of a call, and the head that all of them have."""

import json
import sqlite3
from contextlib import closing

import pytest

from metering.tool_results import ToolResult
from metering.tool_uses import ToolUse
from store.control import credential_names
from tests.dashboard.pages import Page, words_of

TOOL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q"}}
RESPONSE = json.dumps({"content": [TOOL], "stop_reason": "tool_use"}).encode()
FAILED = {"outcome": "upstream_error", "status_code": 529, "error_type": "overloaded_error"}


def request(*texts):
    messages = [{"role": "user", "content": text} for text in texts]
    return json.dumps({"model": "m", "messages": messages}).encode()


def head_of(page):
    return words_of(page.partition("<main")[2].partition('<nav class="tabs"')[0])


@pytest.mark.parametrize("tab", ["", "/cost", "/raw", "/details"])
def test_each_tab_has_the_head_and_says_where_one_is(ann, tab):
    ann.record({"response_body": RESPONSE}, {"response_body": RESPONSE}, session_id="s")
    page = ann.get(f"/calls/2{tab}").text
    assert "turn 2 of 2 Bash pytest -q" in head_of(page)
    (here,) = [a for a in Page(page).find("a") if a.attributes.get("aria-current") == "page"]
    assert here.attributes["href"] == f"/calls/2{tab}"


def test_page_leads_to_the_call_that_has_the_result(ann):
    use = ToolUse(tool="Bash", target="pytest -q", result=ToolResult(1_700))
    of_session = {"session_id": "s", "response_body": RESPONSE, "stop_reason": "tool_use"}
    ann.record(
        of_session | {"tool_uses": (use,)}, of_session | {"tool_uses": (use, use)}, of_session
    )
    with closing(sqlite3.connect(ann.path)) as db, db:
        db.execute("insert into predecessors (usage_id, previous_id) values (2, 1), (3, 2)")
    assert "Turn 2 has its result: 1.7k tokens." in words_of(ann.get("/calls/1").text)
    assert "Turn 3 has the results: 3.4k tokens." in words_of(ann.get("/calls/2").text)
    with closing(sqlite3.connect(ann.path)) as db, db:
        db.execute("delete from predecessors where usage_id = 3")
    alone = words_of(ann.get("/calls/2").text)
    assert "turn 3 follows without the results, as after a compaction." in alone


def test_page_says_what_came_in_and_shows_what_its_own_tool_gave(ann):
    use = {"type": "tool_use", "name": "Edit", "input": {"file_path": "/a.py"}}
    messages: list[dict[str, object]] = [{"role": "user", "content": "Mend it"}]
    calls = []
    for number, (words, is_error) in enumerate((("Written.", False), ("string not found", True))):
        calls.append(list(messages))
        block = {"tool_use_id": f"t{number}", "content": words, "is_error": is_error}
        messages += [
            {"role": "assistant", "content": [use | {"id": f"t{number}"}]},
            {"role": "user", "content": [{"type": "tool_result"} | block]},
        ]
    calls.append(messages)
    ann.record(
        *(
            {
                "request_body": json.dumps({"model": "m", "messages": each}).encode(),
                "response_body": json.dumps({"content": [use | {"id": f"t{number}"}]}).encode(),
                "stop_reason": "tool_use",
                "message_count": len(each),
            }
            for number, each in enumerate(calls)
        ),
        session_id="s",
    )
    with closing(sqlite3.connect(ann.path)) as db, db:
        db.execute("insert into predecessors (usage_id, previous_id) values (2, 1), (3, 2)")
    second = words_of(ann.get("/calls/2").text)
    came_in, _, own = second.partition("Result of its tool")
    assert "what came in: the result of the tools of turn 1;" in came_in
    assert ("Written." in came_in, "string not found" in came_in) == (True, False)
    assert own.startswith(" sent with turn 3 Result of Edit failed")
    assert "string not found" in own
    assert "Result of its tool" not in words_of(ann.get("/calls/3").text)


@pytest.mark.parametrize("path", ["/calls/1/none", "/calls/one", "/calls/1/cost/x", "/calls/7"])
def test_other_addresses_name_no_call(ann, path):
    ann.record()
    assert ann.get(path).status_code == 404


def test_address_of_the_row_leads_browsers_to_the_page_and_programs_get_the_row(ann):
    ann.record()
    for name in ("1", ann.get("/traces/usage/1.json?_shape=array").json()[0]["entry_id"]):
        found = ann.get(f"/traces/usage/{name}")
        assert (found.status_code, found.headers["location"]) == (302, f"/calls/{name}")
    found = ann.get("/calls/1", **ann.bearer)
    assert (found.status_code, found.headers["location"]) == (302, "/traces/usage/1.json")


def test_call_is_named_by_its_words_where_it_used_no_tool(ann):
    said = {"content": [{"type": "text", "text": "It is <b>noon</b>."}], "stop_reason": "end_turn"}
    ann.record(response_body=json.dumps(said).encode())
    page = Page(ann.get("/calls/1").text)
    assert page.find("h1")[0].text == "Answer “It is <b>noon</b>.”"


def test_failed_call_says_how_it_was_sent_again(ann):
    same = {"message_count": 1, "title_text": "Go on", "request_body": request("Go on")}
    ann.record(same | FAILED, same | FAILED, same, session_id="s")
    head = head_of(ann.get("/calls/1").text)
    assert "The client sent it again 2 times: call 3" in head
    assert "went through." in head
    assert "The client sent it again: call 3" in head_of(ann.get("/calls/2").text)


def test_call_that_its_client_ended_says_so(ann):
    ann.record({"outcome": "client_disconnected"}, {})
    told = words_of(ann.get("/calls/1").text)
    assert (
        "The client ended this call. It closed the connection before the response was complete"
        in told
    )
    assert "The client ended this call." not in words_of(ann.get("/calls/2").text)


def test_other_request_after_a_failed_one_is_no_retry(ann):
    ann.record({"message_count": 1, **FAILED}, {"message_count": 3}, session_id="s")
    assert "sent it again" not in head_of(ann.get("/calls/1").text)


def test_bill_has_a_bar_to_scale(ann):
    ann.record()
    bars = [e for e in Page(ann.get("/calls/1/cost").text).find("rect") if e.is_within("svg")]
    shares = [float(e.attributes["width"][:-1]) for e in bars if e.parents[-1].has_class("share")]
    assert sum(shares) == pytest.approx(100, abs=0.1)


def test_a_call_has_its_labels_its_note_and_the_name_of_its_credential(ann, control):
    fingerprint = "7d1c09aa54ef8b021f2e3d4c5b6a7988"
    ann.record({"credential_hmac": fingerprint}, {})
    with sqlite3.connect(ann.path) as db:
        db.execute("insert into labels (usage_id, label, at) values (1, 'odd', '2026-01-02')")
        db.execute(
            "insert into notes (usage_id, text, by, at) values (1, 'Look.', 'bob@x', '2026-01-02')"
        )
    db.close()
    assert "7d1c09aa" in head_of(ann.get("/calls/1").text)
    with control.transaction() as rows:
        credential_names.write(rows, ann.organization_id, fingerprint, "laptop of Ada")
    head = head_of(ann.get("/calls/1/cost").text)
    assert all(words in head for words in ("laptop of Ada", "odd", "Look.", "bob@x"))
    assert "7d1c09aa" not in head
    assert "odd" not in ann.get("/calls/2").text.partition("<main")[2].partition("tabs")[0]


def test_details_say_that_user_project_and_tags_are_named_by_the_client(ann):
    ann.record({"attributed_user": "ann", "tags": '["env:prod"]'})
    words = words_of(ann.get("/calls/1/details").text)
    assert "User ann (as the client says)" in words
    assert "Tags env:prod (as the client says)" in words
    assert words.count("(as the client says)") == 2
