"""Savings of sessions that go through the recorder."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from conversations.savings.calls import list_chains
from recorder.open_databases import OpenDatabases
from recorder.savings import SavingsFinder
from runtime import clock
from store.traces import steps
from store.traces.bodies.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.maintenance import retention
from store.traces.maintenance.retention import Limits, Rules
from store.traces.paths import trace_path
from store.traces.savings import savings
from store.traces.sums import histograms
from tests.conversations.sessions import assistant, conversation, request, text, tool, user
from tests.recorder.conversations import PRICES, Recording

LOG = "It sails. " * 1_000  # some 2,500 tokens
LONG_TOOL = "Does much that has to be described at length. " * 120  # some 1,400 tokens
TOOLS = [tool("Read"), tool("mcp__tracker__list", LONG_TOOL)]


def turns(count, nation="British", **fields):
    return [
        request(*conversation(number, opening=f"A {nation} ship. {LOG}"), **fields)
        for number in range(1, count + 1)
    ]


@pytest.fixture
def recording(tmp_path, monkeypatch):
    monkeypatch.setattr(savings, "QUIET_S", -1.0)
    recording = Recording(tmp_path)
    yield recording
    recording.close()


@pytest.fixture
def finder(databases, clock):
    return SavingsFinder(databases, lambda: PRICES, clock), clock


def look(finder, times=4):
    savings_finder, clock = finder
    savings_finder.begin("org")
    for _ in range(times):
        clock.now_s += 1
        savings_finder.run_step()


def found(recording):
    rows = recording.read("select * from savings order by session_id, finding, subject")
    return {(row["session_id"], row["finding"], row["subject"]): row for row in rows}


def test_a_session_is_looked_at_and_its_findings_are_stored(recording, finder):
    for body in (*turns(2), *turns(5, "American")[2:]):
        recording.send(body)
    look(finder)
    broken = found(recording)["s1", "cache_break", "messages"]
    [measured] = recording.read("select * from cache_breaks")
    assert broken["tokens"] == measured["tokens"]
    assert broken["cents"] == pytest.approx(measured["extra_cost_cents"])
    assert orjson.loads(broken["top"]) == [[3, pytest.approx(measured["extra_cost_cents"])]]
    [looked] = recording.read("select * from session_savings")
    assert (looked["calls"], looked["conversations"], looked["opened"]) == (5, 1, 1)
    assert recording.read("select * from savings_due") == []


def test_what_never_was_called_is_found_in_the_bodies(recording, finder):
    for body in turns(6, tools=TOOLS):
        recording.send(body)
    look(finder)
    unused = found(recording)["s1", "unused_tools", "tracker"]
    assert unused["calls"] == 6
    size = len(orjson.dumps(TOOLS[1])) / 4
    assert unused["tokens"] == pytest.approx(6 * size, rel=0.25)  # by more bytes a token than text


def converse(recording, *, has_threads):
    """Send a conversation, whole each time or as a message thread of which each call sends what is new."""
    bodies = turns(6, tools=TOOLS)
    answers = [*(body["messages"][-2] for body in bodies[1:]), assistant(text("Done."))]
    for number, (body, said) in enumerate(zip(bodies, answers, strict=True)):
        answer = recording.answer(body, recording.at_s + 10)
        answer |= {"id": f"msg_{number}", "content": said["content"]}
        sent = body
        if has_threads and number:
            step = {"type": "continue", "previous_message_id": f"msg_{number - 1}"}
            own = {name: body[name] for name in ("model", "max_tokens")}
            sent = own | {"messages": body["messages"][-1:], "thread": step}
        elif has_threads:
            sent = body | {"thread": {"type": "create"}}
        recording.send(sent, answer=answer)


def test_a_message_thread_could_have_saved_what_the_same_requests_could(
    recording, finder, tmp_path
):
    converse(recording, has_threads=True)
    look(finder)
    of_thread = found(recording)
    whole = Recording(tmp_path / "whole")
    databases = OpenDatabases(whole.data_dir, RequestPreparer())
    _, clock = finder
    converse(whole, has_threads=False)
    look((SavingsFinder(databases, lambda: PRICES, clock), clock))
    databases.close_all()
    of_requests = found(whole)
    whole.close()
    assert ("s1", "unused_tools", "tracker") in of_thread
    assert of_thread.keys() == of_requests.keys()
    for key, row in of_thread.items():
        other = of_requests[key]
        assert row["calls"] == other["calls"]
        assert row["tokens"] == pytest.approx(other["tokens"], rel=0.02)
        assert row["cents"] == pytest.approx(other["cents"], rel=0.02)


def test_a_session_that_changes_is_looked_at_again_and_counts_nothing_twice(recording, finder):
    bodies = turns(6, tools=TOOLS)
    for body in bodies[:5]:
        recording.send(body)
    look(finder)
    before = found(recording)["s1", "unused_tools", "tracker"]
    recording.send(bodies[5])
    look(finder)
    after = found(recording)["s1", "unused_tools", "tracker"]
    assert after["calls"] == 6
    assert after["tokens"] == pytest.approx(before["tokens"] * 6 / 5, rel=0.02)


def test_findings_from_bodies_outlive_the_bodies(recording, finder):
    for body in turns(6, tools=TOOLS):
        recording.send(body)
    look(finder)
    with closing(sqlite3.connect(trace_path(recording.data_dir, "org"))) as db, db:
        db.execute("delete from request_bodies")
        savings.mark_due(db, ["s1"])
    look(finder)
    assert found(recording)["s1", "unused_tools", "tracker"]["calls"] == 6


def test_findings_go_with_the_last_call_of_their_session(recording, finder):
    for body in turns(6, tools=TOOLS):
        recording.send(body)
    look(finder)
    path = trace_path(recording.data_dir, "org")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        everything = Rules(limits=Limits(entries_before="9999"))
        steps.run(retention.prune(db, everything), lambda _: None)
    assert found(recording) == {}
    assert recording.read("select * from session_savings") == []


def test_a_program_that_names_no_session_has_findings_too(recording, finder):
    plain = {"system": [{"type": "text", "text": LOG * 2}]}
    for body in turns(3, **plain):
        for message in body["messages"]:
            for block in message["content"]:
                block.pop("cache_control", None)
        recording.send(body, session_id=None)
    look(finder)
    [(session_id, finding, _)] = found(recording)
    assert (session_id, finding) == ("unnamed-1", "never_cached")


def test_a_session_that_cannot_be_looked_at_does_not_keep_the_others_waiting(
    recording, finder, monkeypatch, caplog
):
    for name in ("s1", "s2"):
        for body in turns(6, tools=TOOLS):
            recording.send(body, session_id=name)
    failures = iter([True])

    def fail_once(calls):
        if next(failures, False):
            raise RuntimeError("made up")
        return list_chains(calls)

    monkeypatch.setattr("recorder.savings.list_chains", fail_once)
    look(finder)
    assert "Savings of session 's1' cannot be computed" in caplog.text
    assert {key[0] for key in found(recording)} == {"s2"}


def test_no_step_takes_more_than_a_fiftieth_of_the_time(recording, tmp_path):
    for name in ("s1", "s2"):
        recording.send(turns(1)[0], session_id=name)
    now_s = [0.0]

    def tick():
        now_s[0] += 1.0
        return now_s[0]

    databases = OpenDatabases(tmp_path, RequestPreparer())
    finder = SavingsFinder(databases, lambda: PRICES, tick)
    finder.begin("org")
    for _ in range(15):
        finder.run_step()
    assert len(recording.read("select * from session_savings")) == 1
    now_s[0] += 50
    finder.run_step()
    assert len(recording.read("select * from session_savings")) == 2
    databases.close_all()


def test_a_session_is_looked_at_when_it_has_rested_or_after_some_calls(
    recording, finder, monkeypatch
):
    monkeypatch.setattr(savings, "QUIET_S", 10.0)
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    looked = "select calls from session_savings"
    bodies = turns(savings.MAX_DELAYING + 3)
    for body in bodies[:2]:
        recording.send(body)
        now[0] += timedelta(seconds=8)
        look(finder)
    assert recording.read(looked) == []
    now[0] += timedelta(seconds=2)
    look(finder)
    assert recording.read(looked) == [{"calls": 2}]
    for body in bodies[2:]:
        recording.send(body)
        now[0] += timedelta(seconds=1)
        look(finder)
    assert recording.read(looked) == [{"calls": 2}], "its last change is too near"
    now[0] += timedelta(seconds=9)
    look(finder)
    assert recording.read(looked) == [{"calls": len(bodies)}]


def test_the_sums_of_days_are_those_of_the_findings(recording, finder):
    for name in ("s1", "s2"):
        for body in turns(6, tools=TOOLS):
            recording.send(body, session_id=name)
    look(finder)
    sums = (
        "select day, finding, subject, sum(calls) as calls, sum(tokens) as tokens, max(cents) as most"
        " from savings group by 1, 2, 3"
    )
    daily = (
        "select day, finding, subject, calls, tokens, largest_cents as most from savings_daily"
        " order by 1, 2, 3"
    )
    assert recording.read(daily) == recording.read(sums)
    assert len(recording.read(sums)) > 0
    [each] = recording.read("select * from session_savings where session_id = 's1'")
    [saved] = recording.read(
        "select sum(cents) as cents, sum(tokens) as tokens from savings where session_id = 's1'"
        " and finding not in ('long_gap', 'client_tools', 'large_result')"
    )
    assert (each["cents"], each["tokens"]) == (saved["cents"], saved["tokens"])
    with closing(sqlite3.connect(trace_path(recording.data_dir, "org"))) as db, db:
        savings.remove_session(db, "s1")
    assert recording.read(daily) == recording.read(sums)
    with closing(sqlite3.connect(trace_path(recording.data_dir, "org"))) as db, db:
        savings.remove_session(db, "s2")
    assert recording.read(daily) == []


READ = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/a.py"}}
LOOKED = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "line " * 2_000}


def use_a_tool(recording, session_id="s1", **head):
    """Record a conversation of three calls, the first of which reads a file."""
    first = user(text(f"A ship. {LOG}"))
    messages = [first, assistant(READ), user(LOOKED), assistant(text("Aye.")), user(text("Go on."))]
    for count in (1, 3, 5):
        body = request(*messages[:count], tools=TOOLS)
        blocks = [READ] if count == 1 else []
        answer = recording.answer(body, recording.at_s + 10) | {"content": blocks}
        recording.send(body, answer=answer, session_id=session_id, **head)


def sums(recording, table):
    return recording.read(f"select * from {table} order by server, tool, slug")  # noqa: S608 - a table


def test_tools_are_summed_up_with_what_they_cost(recording, finder):
    use_a_tool(recording)
    look(finder)
    read, tracker = sums(recording, "tools_daily")
    assert (read["day"], read["slug"], read["credential"]) == (
        "2026-11-20",
        "default",
        "credential",
    )
    assert (read["server"], read["tool"], read["uses"], read["failed"]) == ("", "Read", 1, 0)
    assert read["result_tokens"] == pytest.approx(10_000 / 3, rel=0.01)
    (stored,) = recording.read(
        "select result_sizes from tool_sizes_daily where slug || credential = '**'"
    )
    median = histograms.find_percentile(histograms.unpack(stored["result_sizes"]), 0.5)
    assert median == pytest.approx(10_000 / 3, rel=0.05)
    assert 0 < read["carried_cents"] < read["written_cents"]
    assert (tracker["server"], tracker["tool"], tracker["uses"]) == ("tracker", "list", 0)
    assert tracker["definition_cents"] > read["definition_cents"] > 0
    assert tracker["written_cents"] == 0
    (target,) = sums(recording, "tool_targets_daily")
    assert (target["tool"], target["target"], target["sessions"], target["uses"]) == (
        "Read",
        "/a.py",
        1,
        1,
    )
    assert target["carried_cents"] == read["carried_cents"]


def test_a_session_that_is_looked_at_again_counts_once(recording, finder):
    use_a_tool(recording)
    look(finder)
    before = sums(recording, "tools_daily")
    with closing(sqlite3.connect(trace_path(recording.data_dir, "org"))) as db, db:
        savings.mark_session_due(db, "s1")
    look(finder)
    assert sums(recording, "tools_daily") == before
    use_a_tool(recording, "s2")
    look(finder)
    assert [row["uses"] for row in sums(recording, "tools_daily")] == [2, 0]
    (target,) = sums(recording, "tool_targets_daily")
    assert (target["sessions"], target["uses"]) == (2, 2)


def test_without_bodies_uses_are_summed_up_without_costs(recording, finder):
    use_a_tool(recording, metadata_only=True, message_count=1)
    look(finder)
    (read,) = sums(recording, "tools_daily")
    assert (read["uses"], read["definition_cents"], read["written_cents"]) == (1, 0, 0)
    assert sums(recording, "tool_targets_daily") == []


def test_costs_of_tools_outlive_the_texts_and_targets_do_not(recording, finder):
    use_a_tool(recording)
    look(finder)
    before = sums(recording, "tools_daily")
    recording.restart()
    with TraceDatabase(trace_path(recording.data_dir, "org")) as traces:
        traces.prune(texts_before="2027-01-01", pause=lambda _: None)
        savings.mark_session_due(traces.connection, "s1")
        traces.connection.commit()
    assert sums(recording, "tool_targets_daily") == []
    look(finder)
    assert sums(recording, "tools_daily") == before
    with TraceDatabase(trace_path(recording.data_dir, "org")) as traces:
        traces.prune(before="2027-01-01", pause=lambda _: None)
    for table in ("tools_daily", "session_tools", "session_tool_targets"):
        assert recording.read(f"select * from {table}") == []  # noqa: S608 - a table
