"""``taximeter import claude-code``: transcripts of clients of three ages become calls, once each."""

import json
import sqlite3
from contextlib import closing

import pytest

from manage.cli.up_command import _offer_history
from manage.transcripts.files import iter_lines
from runtime import clock
from store.control.database import ControlDatabase
from store.control.management import Management
from store.traces.paths import trace_path
from tests.conversations.sessions import conversation, request
from tests.manage.transcripts.lines import (
    MODEL,
    SESSION,
    SYSTEM,
    TOOLS,
    assistant,
    old_session,
    said,
    whole_session,
    write,
)
from tests.recorder.conversations import Recording
from tests.store.traffic import make_entry


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The projects of Claude Code, where the command looks for them."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return tmp_path / "claude" / "projects" / "-home-ana-project"


@pytest.fixture
def rows(data_dir):
    def read(sql="select * from usage_log order by created_at, entry_id"):
        with ControlDatabase(data_dir / "control.db") as control:
            path = trace_path(data_dir, control.get_local_organization().id)
        with closing(sqlite3.connect(path)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(sql)]

    return read


def imported(run, *arguments):
    result = run("import", "claude-code", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def counts(new=0, already_there=0, **left_out):
    return {"new": new, "already_there": already_there, "left_out": left_out}


def test_an_old_transcript_with_partial_counts_becomes_calls(run, folder, rows):
    write(folder / "old.jsonl", *old_session())
    assert imported(run) == counts(2)
    first, second = rows("select * from usage_log order by entry_id")
    assert (first["entry_id"], first["message_id"]) == ("claude-code:msg_o1", "msg_o1")
    assert (first["output_tokens"], second["output_tokens"]) == (35, 7), "the last counts, no sum"
    assert first["usage_source"] == first["billing"] == "imported"
    assert (first["session_id"], first["client"]) == (SESSION, "claude-cli/1.0.20")
    assert first["created_at"] == "2026-03-01T10:00:00.000Z"
    # 10 uncached at $5, 35 out at $25, 100 written at $6.25, 1,000 read at $0.50 a million.
    assert first["cost_cents"] == pytest.approx(0.2050)
    assert [
        first[name] for name in ("duration_ms", "ttfb_ms", "request_body", "response_body")
    ] == [None] * 4


def test_without_text_no_words_are_stored(run, folder, data_dir):
    write(folder / "old.jsonl", *old_session())
    write(folder / "whole.jsonl", *whole_session())
    assert imported(run)["new"] == 4
    stored = b"".join(each.read_bytes() for each in data_dir.rglob("*") if each.is_file())
    for words in (b"Mend the tariff", b"make secret", b"Running.", b"secret-project"):
        assert words not in stored, words


def test_with_text_requests_are_rebuilt_where_they_were_written_down(run, folder, rows):
    write(folder / "whole.jsonl", *whole_session())
    assert imported(run, "--text") == counts(2)
    first, second = rows("select * from usage_log order by entry_id")
    assert json.loads(second["request_body"]) == {
        "model": MODEL,
        "messages": [
            {"role": "user", "content": [said("Mend the tariff")]},
            json.loads(second["request_body"])["messages"][1],
            {"role": "user", "content": [said("Go on")]},
        ],
        "system": SYSTEM,
        "tools": TOOLS,
        "max_tokens": 900,
    }
    marked = [SYSTEM[0] | {"cache_control": {"type": "ephemeral"}}]
    assert json.loads(first["request_body"])["system"] == marked
    assert (first["betas"], first["max_tokens"], first["tool_count"]) == ("beta-1,beta-2", 900, 1)
    assert (first["message_count"], second["message_count"]) == (1, 3)
    content = json.loads(first["response_body"])["content"]
    assert [each["type"] for each in content] == ["text", "tool_use"]
    assert first["title_text"] == "Mend the tariff"
    assert first["said_text"] == "Running."
    (use,) = rows("select * from tool_uses")
    assert (use["tool"], use["target"]) == ("Bash", "make secret")


def test_with_text_an_older_transcript_has_responses_and_titles(run, folder, rows):
    write(folder / "old.jsonl", *old_session())
    imported(run, "--text")
    first, _ = rows("select * from usage_log order by entry_id")
    assert (first["request_body"], first["title_text"]) == (None, "Mend the tariff")
    assert "make secret" in first["response_body"]


def test_a_request_whose_base_is_not_there_is_left_out_and_the_call_is_not(run, folder, rows):
    lines = [each for each in whole_session() if each.get("id") != "r1"]
    write(folder / "whole.jsonl", *lines)
    assert imported(run, "--text") == counts(2)
    assert {row["request_body"] for row in rows()} == {None}


def test_a_message_counts_once_whatever_copies_there_are(run, folder, rows):
    parent = assistant("msg_1", said("a"), output=50)
    replay = assistant("msg_1", said("a"), output=900, isSidechain=True, requestId="req_other")
    partial = assistant("msg_1", said("a"), output=5)
    write(folder / "a.jsonl", replay)
    write(folder / "b.jsonl", partial)
    write(folder / "c.jsonl", parent, parent)
    write(folder / "d.jsonl", assistant("msg_1", said("a"), output=50, sessionId="branch"))
    assert imported(run) == counts(1, copy=3)
    (row,) = rows()
    assert (row["output_tokens"], row["agent_id"], row["session_id"]) == (50, None, SESSION)


def test_subagents_have_their_agents(run, folder, rows):
    file = folder / SESSION / "subagents" / "agent-a1.jsonl"
    write(file, assistant("msg_1", said("a"), isSidechain=True, agentId="a1"))
    write(folder / "old.jsonl", assistant("msg_2", said("a"), isSidechain=True))
    imported(run)
    assert [row["agent_id"] for row in rows()] == ["a1", "sidechain"]


def test_what_is_recorded_is_there_already(run, folder, rows, traces):
    traces.insert(
        [
            make_entry(message_id="msg_o1", session_id=SESSION),
            make_entry(message_id=None, upstream_request_id="req_msg_o2", session_id=SESSION),
        ]
    )
    write(folder / "old.jsonl", *old_session(), assistant("msg_3", said("a")))
    assert imported(run) == counts(1, 2)
    assert len(rows()) == 3
    assert imported(run) == counts(0, 3)


def test_an_import_is_repeated_without_harm(run, folder, rows):
    write(folder / "old.jsonl", *old_session())
    assert imported(run) == counts(2)
    write(folder / "whole.jsonl", *whole_session())
    assert imported(run) == counts(2, 2)
    assert imported(run) == counts(0, 4)
    assert "Imported 0 calls; 4 were there already." in run("import", "claude-code").stdout


def test_lines_that_are_no_calls_are_counted_and_left_out(run, folder, rows, monkeypatch):
    monkeypatch.setattr("manage.transcripts.files.MAX_LINE_BYTES", 1_000)
    write(
        folder / "odd.jsonl",
        "{not json",
        "[" * 5_000,
        "[1]",
        '"text"',
        assistant("msg_1", said("x" * 70_000)),
        assistant("msg_2", said("No."), message={"model": "<synthetic>"}),
        assistant("msg_3", said("No."), message={"usage": None}),
        assistant("msg_4", said("No."), timestamp="yesterday"),
        assistant("", said("No.")),
        {"type": "summary", "summary": "A summary"},
        {"type": "assistant"},
        assistant("msg_5", said("Yes.")),
    )
    found = imported(run)
    assert found["new"] == 2
    assert found["left_out"] == {
        "unreadable": 4,
        "no_call": 1,
        "no_usage": 1,
        "no_time": 1,
        "no_message_id": 2,
    }


def test_a_line_that_is_too_long_is_skipped(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"a" * 50 + b"\nshort\n" + b"b" * 10 + b"\n" + b"c" * 95)
    with path.open("rb") as file:
        found = list(iter_lines(file, 20))
    assert found == [(0, None), (51, b"short"), (57, b"b" * 10), (68, None)]


def test_imported_calls_are_in_costs_and_sessions_and_in_nothing_that_was_measured(
    run, folder, rows, data_dir
):
    write(folder / "old.jsonl", *old_session())
    write(folder / "now.jsonl", assistant("msg_now", said("a"), timestamp=now()))
    imported(run)
    usage_ = json.loads(run("usage", "--by", "billing", "--json").stdout)
    (group,) = usage_["groups"]
    assert (group["billing"], group["calls"]) == ("imported", 3)
    assert group["cost_cents"] > 0
    assert group["spend_cents"] == 0
    (session,) = json.loads(run("sessions", "--json").stdout)["items"]
    assert (session["session_id"], session["calls"], session["cache_breaks"]) == (SESSION, 3, 0)
    assert rows("select * from limit_readings") == []
    assert rows("select * from cache_breaks") == []
    assert rows("select * from predecessors") == []
    times = rows("select ttfb_ms, duration_ms, output_tokens_per_s from timings_daily")
    assert {time for row in times for time in row.values()} == {b""}
    with ControlDatabase(data_dir / "control.db") as control:
        management = Management(control, data_dir)
        caller = management.local_caller()
        budget = management.budgets.put(caller, None, period="month", limit_usd=1, action="refuse")
        assert budget.spent_usd == 0


def now():
    return clock.format_ms(clock.now())


def test_an_imported_call_is_not_what_a_recorded_one_continues(run, folder, rows, data_dir):
    with ControlDatabase(data_dir / "control.db") as control:
        owner = control.get_local_organization().id
    opening = f"A British ship. {'It sails. ' * 1_000}"
    first, second = (request(*conversation(turns, opening=opening)) for turns in (1, 2))
    blob = {"type": "api-request-shape", "shapeHash": "s", "shape": {"system": first["system"]}}
    asked = {
        "type": "api-request",
        "id": "r1",
        "shapeHash": "s",
        "params": {"model": first["model"]},
        "tail": [f"m{place}" for place in range(len(first["messages"]))],
    }
    blobs = [
        {"type": "api-request-blob", "hash": f"m{place}", "message": message}
        for place, message in enumerate(first["messages"])
    ]
    answered = assistant("msg_1", said("a"), requestRef="r1", sessionId="s1", timestamp=now())
    write(folder / "whole.jsonl", blob, *blobs, asked, answered)
    assert imported(run, "--text")["new"] == 1
    recording = Recording(data_dir, owner)
    recording.send(second)
    recording.close()
    assert rows("select * from predecessors") == []
    (stored,) = rows("select request_body from usage_log where usage_source = 'imported'")
    assert json.loads(stored["request_body"])["messages"] == first["messages"]


def test_an_endpoint_that_keeps_no_bodies_gets_no_text(run, folder, rows):
    assert run("endpoints", "create", "History", "--metadata-only").exit_code == 0
    write(folder / "whole.jsonl", *whole_session())
    assert imported(run, "--text", "--endpoint", "history") == counts(2)
    assert {(row["slug"], row["response_body"], row["title_text"]) for row in rows()} == {
        ("history", None, None)
    }


def test_where_there_are_no_transcripts_that_is_said(run, folder, tmp_path):
    for arguments in ((), (str(tmp_path / "none"),)):
        result = run("import", "claude-code", *arguments)
        assert result.exit_code == 1
        assert "there are no transcripts in" in result.output
    assert run("import", "claude-code", "--endpoint", "none").exit_code == 1


def test_the_first_start_offers_the_import_where_there_are_transcripts(folder, capsys):
    _offer_history()
    assert capsys.readouterr().out == ""
    write(folder / "old.jsonl", *old_session())
    _offer_history()
    said_ = capsys.readouterr().out
    assert said_.count("\n") == 2
    assert f"There are sessions of Claude Code in {folder.parent}: " in said_
    assert "import claude-code" in said_
