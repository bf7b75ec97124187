"""``taximeter retention`` and ``taximeter erase`` on the data of this machine."""

import json

import pytest

from runtime import clock
from runtime.locks import ProcessLock
from store.control.database import ControlDatabase
from store.spool.writer import SpoolRun
from tests.recorder.test_ingest import spool_call
from tests.store.stored_words import find_word
from tests.store.traffic import make_entry

WORD = "quokkaplonkify"


@pytest.fixture
def calls(traces):
    body = b'{"messages":[{"role":"user","content":"%s"}]}' % WORD.encode()
    for session_id in ("s", "s", "other"):
        said = body if session_id == "s" else b"{}"
        traces.insert([make_entry(session_id=session_id, request_body=said)])
    return traces


def test_rules_are_set_one_by_one_and_shown(run, calls):
    shown = run("retention", "set", "--text-days", "30", "--call-days", "365").stdout
    assert "30 days" in shown
    assert "Next run:" in shown
    shown = json.loads(run("retention", "set", "--max-size", "20GB", "--json").stdout)
    assert (shown["text_days"], shown["entry_days"], shown["max_bytes"]) == (30, 365, 20 * 10**9)
    assert shown["next_run"]["at"].endswith("T02:00:00.000Z")
    assert shown["size_bytes"] > 0
    assert shown["last_run"] is None
    run("retention", "set", "--text-days", "off", "--call-days", "off", "--max-size", "off")
    shown = json.loads(run("retention", "show", "--json").stdout)
    assert (shown["text_days"], shown["entry_days"], shown["max_bytes"]) == (None, None, None)
    assert shown["next_run"] is None


def test_an_endpoint_has_a_rule_of_its_own(run):
    assert run("retention", "set", "--endpoint", "default", "--text-days", "1").exit_code == 0
    shown = json.loads(run("retention", "show", "--endpoint", "default", "--json").stdout)
    assert shown == {"text_days": 1, "entry_days": None}
    assert "as the organisation" in run("retention", "show", "--endpoint", "default").stdout
    assert json.loads(run("retention", "show", "--json").stdout)["text_days"] is None


def test_a_dry_run_counts_and_erases_nothing(run, calls):
    assert run("erase", "--session", "s", "--dry-run").stdout == "2 calls would be erased.\n"
    assert calls.count_entries() == 3


@pytest.mark.parametrize("option", ["--from", "--since"])
def test_a_period_begins_at_a_point_in_time(run, calls, option):
    counted = run("erase", option, "2999-01-01T00:00", "--dry-run")
    assert counted.stdout == "0 calls would be erased.\n"


def test_calls_are_erased_without_a_running_service(run, calls, data_dir):
    assert find_word(data_dir, WORD)
    erased = run("erase", "--session", "s", "--yes")
    assert erased.stdout == "Erased 2 calls.\n"
    assert find_word(data_dir, WORD) == []
    assert calls.count_entries() == 1
    state = json.loads(run("erase", "--until", "2030-01-01", "--yes", "--json").stdout)
    assert state["entries"] == 1
    assert state["ended_at"] is not None
    assert calls.count_entries() == 0


def test_what_the_recorder_has_not_recorded_yet_is_left_to_it(run, calls, data_dir):
    spool = SpoolRun(data_dir / "spool")
    with ControlDatabase(data_dir / "control.db") as control:
        organization = control.get_local_organization()
    spool_call(spool, clock.new_id(), organization.id)
    erased = run("erase", "--session", "s", "--yes").stdout
    assert erased.startswith("Erased 2 calls. Calls that were in flight are erased when")
    spool.close()


def test_where_a_recorder_runs_it_is_waited_for(run, calls, data_dir, monkeypatch):
    monkeypatch.setattr("manage.cli.retention_commands.PATIENCE_S", 0.0)
    lock = ProcessLock(data_dir / "recorder.lock")
    assert "The service goes on" in run("erase", "--session", "s", "--yes").stdout
    assert calls.count_entries() == 3
    lock.release()
    assert run("erase", "--session", "x", "--yes").stdout == "Erased 0 calls.\n"
    assert calls.count_entries() == 1, "the order of before was carried out too"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("erase",), 2, "choose what to erase"),
        (("erase", "--session", "s"), 2, "Add --yes"),
        (("erase", "--from", "soon"), 2, "2026-01-31"),
        (("erase", "--from", "2026-01-02", "--until", "2026-01-01", "--yes"), 1, "from"),
        (("erase", "--session", "", "--dry-run"), 1, "session"),
        (("retention", "set"), 2, "choose what to set"),
        (("retention", "set", "--text-days", "soon"), 2, "30"),
        (("retention", "set", "--text-days", "0"), 1, "text_days"),
        (("retention", "set", "--text-days", "9", "--call-days", "8"), 1, "text_days"),
        (("retention", "set", "--max-size", "1KB"), 1, "max_bytes"),
        (("retention", "set", "--endpoint", "default", "--max-size", "1GB"), 2, "organisation"),
        (("retention", "set", "--endpoint", "x", "--text-days", "1"), 1, "endpoints list"),
        (("retention", "show", "--endpoint", "x"), 1, "endpoints list"),
    ],
)
def test_what_cannot_be_done_is_one_line_on_standard_error(run, arguments, status, message):
    result = run(*arguments)
    assert result.exit_code == status
    assert message in result.stderr
    assert result.stdout == ""
