"""The schema of a trace database is read once, and again when it has changed."""

import sqlite3
import threading
from contextlib import closing

import pytest

from dashboard.tables import remembered_schema
from dashboard.tables.instances import Instances
from dashboard.tables.trace_browser import TraceBrowser
from dashboard.tables.trace_file import TraceFile
from store.traces.paths import trace_path_in
from tests.dashboard.browsing import OURS, ask_for, record


@pytest.fixture
def path(tmp_path):
    path = trace_path_in(tmp_path, "org_1")
    path.parent.mkdir(parents=True, exist_ok=True)
    record(path, OURS)
    return path


@pytest.fixture
def instances(tmp_path, path):
    with closing(Instances(tmp_path)) as instances:
        yield instances


async def test_what_a_migration_adds_is_there_for_the_next_request(instances, path):
    assert (await ask_for(instances, "org_1", "/traces/added.json")).status_code == 404
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table added (id integer primary key, first text)")
    answer = await ask_for(instances, "org_1", "/traces/added.json")
    assert answer.json()["columns"] == ["id", "first"]
    with closing(sqlite3.connect(path)) as db:
        db.execute("alter table added add column second text")
    answer = await ask_for(instances, "org_1", "/traces/added.json")
    assert answer.json()["columns"] == ["id", "first", "second"]


async def test_a_second_page_reads_only_rows_and_their_count(instances, monkeypatch):
    read, execute = [], TraceFile.execute_fn

    async def count(file, function):
        read.append(function)
        return await execute(file, function)

    monkeypatch.setattr(TraceFile, "execute_fn", count)
    monkeypatch.setattr(TraceFile, "_execute_briefly", lambda *_: None)
    first = await ask_for(instances, "org_1", "/traces/usage")
    del read[:]
    second = await ask_for(instances, "org_1", "/traces/usage")
    assert first.status_code == second.status_code == 200
    assert len(read) == 3, "the version of the schema, the rows, and their count"


async def test_what_is_remembered_may_be_changed_by_whoever_asked(browser):
    (await browser.file.table_columns("usage")).clear()
    assert "id" in await browser.file.table_columns("usage")


async def test_tables_that_visitors_make_up_are_not_remembered_for_ever(browser, monkeypatch):
    monkeypatch.setattr(remembered_schema, "_MAX_REMEMBERED", 3)
    for number in range(8):
        assert not await browser.file.table_exists(f"no_{number}")
    assert len(browser.file.found) <= 3


@pytest.fixture
def browser(path):
    browser = TraceBrowser(path, threading.Event())
    yield browser
    browser.executor.submit(browser.file.close)
    browser.executor.shutdown()
