"""``taximeter sessions``: the list, and one session with what broke its cache."""

import json
from decimal import Decimal

import pytest

from store.control.database import ControlDatabase
from tests.conversations.sessions import conversation, request
from tests.recorder.conversations import Recording
from tests.store.traffic import make_entry


@pytest.fixture
def entries(traces):
    traces.insert(
        [
            make_entry(
                session_id="one",
                created_at=f"2026-01-02T03:0{minute}:00.000Z",
                cost_cents=Decimal(100 * minute),
                agent_id="agent-1" if minute == 2 else None,
                title_text="Mend\x1b[2J the tariff",
            )
            for minute in (1, 2)
        ]
        + [
            make_entry(
                session_id="two",
                created_at="2026-02-02T03:00:00.000Z",
                outcome="upstream_error",
                title_text="Another",
            )
        ]
    )


def lines(result):
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_sessions_are_listed_the_newest_first(run, entries):
    header, two, one = lines(run("sessions"))
    assert header.split()[-3:] == ["COST", "SESSION", "TITLE"]
    assert "2026-02-02 03:00" in two
    assert two.endswith("Another")
    assert one.split()[2:5] == ["2", "0", "0"]
    assert "$3.00" in one
    assert "\x1b" not in one
    assert lines(run("sessions", "list")) == [header, two, one]


def test_sessions_are_chosen_and_ordered(run, entries):
    assert len(lines(run("sessions", "--since", "2026-01-15"))) == 2
    first, second = lines(run("sessions", "--by-cost", "--since", "2026-01-01"))[1:]
    assert "one" in first
    assert "two" in second
    page = json.loads(run("sessions", "-n", "1", "--json").stdout)
    assert page["hasMore"] is True
    rest = json.loads(run("sessions", "--cursor", page["nextCursor"], "--json").stdout)
    assert [each["session_id"] for each in rest["items"]] == ["one"]


def test_a_session_is_shown_with_its_turns_and_agents(run, entries):
    text = run("sessions", "show", "one").stdout
    assert "2 calls, $3.00" in text
    assert text.index("$1.00") < text.index("$2.00")
    assert "  agent-1: 1 call, $2.00\n" in text
    assert text.endswith("/sessions/one\n")
    found = json.loads(run("sessions", "show", "one", "--json").stdout)
    assert [turn["agent_id"] for turn in found["turns"]] == [None, "agent-1"]
    assert "upstream_error" in run("sessions", "show", "two").stdout


def test_what_broke_the_cache_is_said_with_its_price(run, data_dir):
    with ControlDatabase(data_dir / "control.db") as control:
        recording = Recording(data_dir, control.get_local_organization().id)
    log = "It sails. " * 1_000
    for turns, nation in ((1, "British"), (2, "British"), (3, "American")):
        recording.send(request(*conversation(turns, opening=f"A {nation} ship. {log}")))
    recording.close()
    text = run("sessions", "show", "s1").stdout
    assert "\nBroke the cache:\n  call 3: messages (" in text
    assert "“British” became “American”" in text
    assert " tokens, $0." in text
    assert " extra" in text


def test_one_that_is_not_there_is_an_error(run, entries):
    result = run("sessions", "show", "none")
    assert result.exit_code == 1
    assert "there is no session 'none'" in result.output


def test_without_calls_there_are_none(run):
    assert lines(run("sessions")) == ["There are no sessions yet."]
