"""The recorder indexes what was said, after the calls are stored."""

import sqlite3

import pytest

from recorder import text_indexing
from recorder.background import RETRY_S
from recorder.text_indexing import PAUSE_S, TextIndexing
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from store.traces.search.indexer import Indexer
from tests.recorder.ingesters import make_ingester
from tests.store.traces.search.conversation import first_calls, record, request, user


@pytest.fixture
def indexing(databases, clock):
    return TextIndexing(databases, clock)


def say(databases, organization_id, word):
    record(databases.open(organization_id), (request(user(word)), None))


def test_calls_of_a_moment_are_indexed_together(indexing, databases, clock):
    say(databases, "a", "wombat")
    indexing.begin("a")
    assert indexing.run_step(), "there is something to do, soon"
    assert first_calls(databases.open("a"), "wombat") == []
    clock.now_s += PAUSE_S
    indexing.begin("a")
    assert not indexing.run_step()
    assert first_calls(databases.open("a"), "wombat") == [1]


def test_organisations_take_turns(indexing, databases, clock, monkeypatch):
    turns: list[object] = []

    def run(indexer, _seconds):
        turns.append(indexer.connection)
        return True

    monkeypatch.setattr(Indexer, "run", run)
    for organization_id in ("a", "b"):
        databases.open(organization_id)
        indexing.begin(organization_id)
    clock.now_s += PAUSE_S
    for _ in range(4):
        assert indexing.run_step()
    connections = [databases.open(each).connection for each in ("a", "b")]
    assert turns == connections * 2


def test_what_cannot_be_indexed_waits_and_harms_nobody(indexing, databases, clock, monkeypatch):
    run = Indexer.run

    def fail(indexer, seconds):
        if indexer.connection is databases.open("a").connection:
            raise sqlite3.OperationalError("locked")
        return run(indexer, seconds)

    monkeypatch.setattr(Indexer, "run", fail)
    for organization_id in ("a", "b"):
        say(databases, organization_id, "wombat")
        indexing.begin(organization_id)
    clock.now_s += PAUSE_S
    indexing.run_step()
    indexing.run_step()
    assert first_calls(databases.open("b"), "wombat") == [1]
    monkeypatch.setattr(Indexer, "run", run)
    assert indexing.run_step(), "the first is tried later"
    assert first_calls(databases.open("a"), "wombat") == []
    clock.now_s += RETRY_S
    assert not indexing.run_step()
    assert first_calls(databases.open("a"), "wombat") == [1]


def test_memory_of_many_organisations_is_bounded(indexing, databases, clock, monkeypatch):
    monkeypatch.setattr(text_indexing, "MAX_INDEXERS", 2)
    for organization_id in ("a", "b", "c"):
        databases.open(organization_id)
        indexing.begin(organization_id)
    clock.now_s += PAUSE_S
    while indexing.run_step():
        pass
    assert list(indexing._indexers) == ["b", "c"]


@pytest.mark.parametrize("is_on", [True, False])
def test_nothing_is_indexed_while_it_is_off_and_all_when_it_is_on_again(tmp_path, clock, is_on):
    def make(*, is_on):
        return make_ingester(
            tmp_path,
            make_work=lambda databases: [TextIndexing(databases, clock)] if is_on else [],
        )

    with TraceDatabase(trace_path(tmp_path, "a")) as traces:
        record(traces, (request(user("wombat")), None))
        for setting, expected in ((is_on, [1] if is_on else []), (True, [1])):
            ingester = make(is_on=setting)
            ingester.update_databases()
            clock.now_s += PAUSE_S
            while ingester.work_in_background():
                pass
            ingester.close()
            assert first_calls(traces, "wombat") == expected
