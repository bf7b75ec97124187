"""The search for credentials in recorded calls. None of these was ever one."""

import json
import sqlite3
from contextlib import closing

import pytest

from extensions.credentials_in_calls import search as secret_search
from extensions.credentials_in_calls.findings import (
    FoundSecrets,
    count_in_calls,
    list_secrets,
    secrets_path,
)
from extensions.credentials_in_calls.search import SecretSearch
from recorder.background import RETRY_S
from recorder.open_databases import OpenDatabases
from store.control.database import ControlDatabase
from store.traces.bodies.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry
from tests.upstream import message_events

KEY = "AKIA" + "Q2W3E4R5T6Y7U8I9"
TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture(autouse=True)
def _databases_are_copies(quick_databases):
    """Save the migrations."""


class Searched:
    """A recorder's databases, with the search over them."""

    def __init__(self, folder):
        self.folder = folder
        with ControlDatabase(folder / "control.db") as control:
            control.set_up()
        self.now_s = 0.0
        self.databases = OpenDatabases(folder, RequestPreparer())
        self.search = SecretSearch(
            folder, folder / "control.db", self.databases, lambda: self.now_s
        )

    def path(self, organization_id="org"):
        return trace_path(self.folder, organization_id)

    def record(self, *calls, organization_id="org", **changes):
        database = self.databases.open(organization_id)
        database.insert([make_entry(**(changes | call)) for call in calls])

    def run(self, organization_id="org"):
        self.search.begin(organization_id)
        self.now_s += secret_search.PAUSE_S
        while self.search._due_s.get(organization_id, self.now_s + 1) <= self.now_s:
            self.search.run_step()

    def found(self, organization_id="org"):
        with closing(sqlite3.connect(secrets_path(self.path(organization_id)))) as db:
            sql = "select usage_id, kind, place, shown from found order by usage_id, kind"
            return db.execute(sql).fetchall()


@pytest.fixture
def searched(tmp_path):
    searched = Searched(tmp_path)
    yield searched
    searched.search.close()
    searched.databases.close_all()


def body(*messages, **more):
    return json.dumps({"model": "claude-x", "messages": list(messages)} | more).encode()


def said(role, content):
    return {"role": role, "content": content}


def result(words):
    return said("user", [{"type": "tool_result", "tool_use_id": "t1", "content": words}])


def read_progress(searched):
    with closing(FoundSecrets(searched.path())) as found:
        return found.read_progress()


FOUND = "AWS access key", "AKIAQ2…"


def test_a_credential_is_found_in_the_call_that_brought_it(searched):
    first = said("user", "Read the file.")
    second = result(f"[default]\naws_access_key_id={KEY}\n")
    third = said("user", "Thank you.")
    searched.record(
        {"request_body": body(first)},
        {"request_body": body(first, second)},
        {"request_body": body(first, second, third)},
    )
    searched.run()
    assert searched.found() == [(2, FOUND[0], "tool_result", FOUND[1])]


def test_the_search_goes_on_where_it_was(searched):
    first, second = said("user", "One."), said("user", f"Use {KEY}.")
    searched.record({"request_body": body(first)})
    searched.run()
    searched.record({"request_body": body(first, second)}, {"request_body": body(first, second)})
    searched.run()
    searched.run()
    assert [row[0] for row in searched.found()] == [2]


def test_a_call_without_a_finding_costs_no_transaction_until_the_search_ends(searched, monkeypatch):
    monkeypatch.setattr(secret_search, "NOTED_AFTER", 3)
    searched.record(*({"request_body": body(said("user", f"No {n}."))} for n in range(2)))
    searched.run()
    assert read_progress(searched) is None
    searched.record({"request_body": body(said("user", "No 3."))})
    searched.run()
    assert read_progress(searched).usage_id == 3
    searched.record({"request_body": body(said("user", "No 4."))})
    searched.run()
    searched.search.close()
    assert read_progress(searched).usage_id == 4


def test_calls_without_a_finding_are_read_together(searched):
    calls = [
        {"request_body": body(said("user", f"No {n}.")), "response_body": b"{}"} for n in range(12)
    ]
    searched.record(*calls)
    searched.run()
    statements: list[str] = []
    searched.databases.open("org").connection.set_trace_callback(statements.append)
    searched.record(*calls)
    statements.clear()
    searched.run()
    assert 0 < len(statements) < 6


def test_calls_that_are_too_much_together_are_searched_one_by_one(searched, monkeypatch):
    monkeypatch.setattr(secret_search, "MAX_TEXT_BYTES", 1_000)
    words = [f"{n} " * 200 for n in range(6)]
    words[4] += KEY
    searched.record(*({"request_body": body(said("user", each))} for each in words))
    searched.run()
    assert [row[0] for row in searched.found()] == [5]


def test_a_search_that_is_killed_finds_the_same_once_more(searched):
    first, second = said("user", f"One {KEY}."), said("user", f"Two {TOKEN}.")
    searched.record({"request_body": body(first)}, {"request_body": body(first, second)})
    searched.run()
    found = searched.found()
    with closing(sqlite3.connect(secrets_path(searched.path()))) as db, db:
        db.execute("delete from progress")
    searched.search = SecretSearch(
        searched.folder, searched.folder / "control.db", searched.databases, lambda: searched.now_s
    )
    searched.run()
    assert searched.found() == found
    assert {row[0] for row in found} == {1, 2}


def test_what_was_found_is_not_lost_where_a_call_after_it_cannot_be_read(searched, monkeypatch):
    searched.record(*({"request_body": body(said("user", f"{n} {KEY}"))} for n in range(3)))
    find_place = secret_search.find_place

    def fail(request, probe):
        if "2 " in str(request.messages):
            raise ValueError("made up")
        return find_place(request, probe)

    monkeypatch.setattr(secret_search, "find_place", fail)
    searched.run()
    monkeypatch.undo()
    searched.now_s += RETRY_S
    searched.run()
    assert [row[0] for row in searched.found()] == [1, 2, 3]


def test_a_request_that_lacks_a_piece_keeps_no_call_from_being_searched(searched, caplog):
    """Only where it is said cannot be told. `taximeter verify` reports such a request."""
    searched.record(
        {"request_body": body(said("user", "Hello."), said("user", KEY))},
        {"request_body": body(said("user", TOKEN))},
    )
    connection = searched.databases.open("org").connection
    assert connection.execute("delete from pieces where text like '%Hello%'").rowcount == 1
    searched.run()
    assert [row[:3] for row in searched.found()] == [
        (1, FOUND[0], "request"),
        (2, "GitHub token", "user"),
    ]
    assert "cannot be searched" not in caplog.text


@pytest.mark.parametrize(
    ("request_", "place"),
    [
        (body(said("user", "x"), system=f"Use {KEY} for it."), "system"),
        (body(said("user", "x"), tools=[{"name": "a", "description": f"With {KEY}"}]), "tool"),
        (body(said("user", f"Take {KEY}")), "user"),
        (body(said("user", [{"type": "text", "text": f"Take {KEY}"}])), "user"),
        (body(result(f"KEY={KEY}")), "tool_result"),
        (body(result([{"type": "text", "text": f"KEY={KEY}"}])), "tool_result"),
        (body(said("assistant", f"I used {KEY}.")), "assistant"),
        (body(said("user", "x"), metadata={"user_id": KEY}), "request"),
        (f"not JSON, {KEY}".encode(), "request"),
    ],
)
def test_who_said_it_is_told(searched, request_, place):
    searched.record({"request_body": request_})
    searched.run()
    assert searched.found() == [(1, FOUND[0], place, FOUND[1])]


@pytest.mark.parametrize(
    "words",
    [f"a\n{KEY}\nb", f'{{"key":"{KEY}"}}', json.dumps({"out": f"a\n{KEY}\n"}), f"a\t{KEY}\t"],
)
def test_what_stands_beside_it_as_an_escape_hides_nothing(searched, words):
    searched.record({"request_body": body(result(words))})
    searched.run()
    assert len(searched.found()) == 1


def test_a_private_key_is_found_over_its_lines(searched):
    lines = "\n".join(
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"[:64] for _ in "ab"
    )
    words = f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----"
    searched.record({"request_body": body(said("user", words))})
    searched.run()
    assert searched.found() == [(1, "Private key", "user", "-----BEGIN PRIVATE KEY…")]


def test_a_response_is_searched_over_its_deltas_and_its_echo_is_no_news(searched):
    stream = b"".join(message_events([f"The key is {KEY[:7]}", f"{KEY[7:]}."]))
    echo = body(
        said("user", "Which?"), said("assistant", f"The key is {KEY}."), said("user", "Ok.")
    )
    searched.record(
        {"request_body": body(said("user", "Which?")), "response_body": stream},
        {"request_body": echo},
    )
    searched.run()
    assert searched.found() == [(1, FOUND[0], "response", FOUND[1])]


def test_the_same_credential_is_counted_over_conversations(searched):
    searched.record(
        {"request_body": body(said("user", f"A {KEY}"))},
        {"request_body": body(said("user", f"B {KEY} and {TOKEN}"))},
    )
    searched.run()
    with TraceDatabase(searched.path()) as traces:
        listed = list_secrets(searched.path(), traces.connection)
    assert [(each.kind, each.calls, each.last_usage_id) for each in listed] == [
        ("AWS access key", 2, 2),
        ("GitHub token", 1, 2),
    ] or [(each.kind, each.calls, each.last_usage_id) for each in listed] == [
        ("GitHub token", 1, 2),
        ("AWS access key", 2, 2),
    ]
    assert count_in_calls(searched.path(), [1, 2, 3]) == {1: 1, 2: 2}


def test_no_credential_is_in_the_file_or_the_log(searched, caplog):
    searched.record({"request_body": body(said("user", f"{KEY} {TOKEN}"))})
    searched.run()
    assert len(searched.found()) == 2
    for path in searched.path().parent.glob("secrets.db*"):
        stored = path.read_bytes()
        assert KEY.encode() not in stored
        assert TOKEN.encode() not in stored
        assert path.stat().st_mode & 0o077 == 0
    assert KEY not in caplog.text
    assert TOKEN not in caplog.text


def test_digests_are_keyed(tmp_path):
    digests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir(mode=0o700)
        searched = Searched(tmp_path / name)
        searched.record({"request_body": body(said("user", KEY))})
        searched.run()
        with closing(sqlite3.connect(secrets_path(searched.path()))) as db:
            digests += db.execute("select digest from found").fetchall()
        searched.databases.close_all()
    assert digests[0] != digests[1]


def test_retention_removes_what_was_found_in_a_call(searched):
    searched.record(
        {"request_body": body(said("user", KEY)), "created_at": "2026-01-01T00:00:00.000Z"},
        {"request_body": body(said("user", TOKEN)), "created_at": "2026-02-01T00:00:00.000Z"},
    )
    searched.run()
    with TraceDatabase(searched.path()) as traces:
        traces.prune(before="2026-01-15T00:00:00.000Z", pause=lambda _s: None)
    assert [row[0] for row in searched.found()] == [2]


@pytest.mark.parametrize("stored", [b"\xff\x00" + KEY.encode(), b"", b"\x00"])
def test_bodies_that_are_no_text_stop_nothing(searched, stored):
    searched.record(
        {"request_body": stored, "response_body": stored},
        {},
        {"request_body": body(said("user", TOKEN))},
    )
    searched.run()
    assert (3, "GitHub token", "user", "ghp_ab…") in searched.found()


def test_only_so_much_of_a_call_is_searched(searched, monkeypatch):
    monkeypatch.setattr(secret_search, "MAX_TEXT_BYTES", 1_000)
    searched.record({"request_body": body(said("user", f"{'word ' * 1_000}{KEY}"))})
    searched.run()
    assert searched.found() == []


def test_the_first_search_leaves_out_calls_of_long_ago(searched, monkeypatch):
    monkeypatch.setattr(secret_search, "EARLIER_CALLS", 2)
    searched.record(*({"request_body": body(said("user", f"{n} {KEY}"))} for n in range(4)))
    searched.run()
    assert [row[0] for row in searched.found()] == [3, 4]


def test_an_organisation_that_cannot_be_searched_waits_and_others_do_not(searched, caplog):
    searched.record({"request_body": body(said("user", KEY))})
    searched.record({"request_body": body(said("user", KEY))}, organization_id="other")
    searched.run()
    with closing(sqlite3.connect(secrets_path(searched.path()), isolation_level=None)) as db:
        db.execute("begin immediate")
        searched.record({"request_body": body(said("user", TOKEN))})
        searched.run()
        assert "cannot be searched now" in caplog.text
        searched.run("other")
        assert len(searched.found("other")) == 1
        db.execute("rollback")
    searched.now_s += RETRY_S
    searched.run()
    assert [row[0] for row in searched.found()] == [1, 2]
