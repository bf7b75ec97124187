"""Brief queries run at once, others in the thread."""

import asyncio
import threading
from contextlib import closing

import pytest

from dashboard.tables import trace_file
from dashboard.tables.instances import Instances
from dashboard.tables.trace_browser import TraceBrowser
from dashboard.tables.trace_file import TraceFile
from store.traces.paths import trace_path_in
from tests.dashboard.browsing import OURS, ask_for, record

COUNTED = 50_000
COUNT = (
    "with recursive n(i) as (select 1 union all select i + 1 from n limit :most)"
    " select count(*) from n"
)


@pytest.fixture
def path(tmp_path):
    path = trace_path_in(tmp_path, "org_1")
    path.parent.mkdir(parents=True)
    record(path, OURS)
    return path


@pytest.fixture
async def file(path):
    browser = TraceBrowser(path, threading.Event())
    await browser.file.execute("select 1")  # which opens it
    yield browser.file
    browser.executor.submit(browser.file.close)
    browser.executor.shutdown()


@pytest.fixture
def turns(monkeypatch):
    """The functions that took a turn in the thread."""
    turns, execute = [], TraceFile.execute_fn

    async def note(file, function):
        turns.append(function)
        return await execute(file, function)

    monkeypatch.setattr(TraceFile, "execute_fn", note)
    return turns


async def count(file):
    return (await file.execute(COUNT, {"most": COUNTED})).single_value()


async def test_brief_queries_of_a_page_take_no_turn_in_the_thread(
    tmp_path, path, turns, monkeypatch
):
    monkeypatch.setattr(trace_file, "BRIEF_MS", 59_999)  # however slow this machine is
    with closing(Instances(tmp_path)) as instances:
        await ask_for(instances, "org_1", "/traces/usage")
        turns.clear()
        answer = await ask_for(instances, "org_1", "/traces/usage")
    assert answer.status_code == 200
    assert turns == []


async def test_a_query_that_takes_longer_goes_on_in_the_thread_and_begins_there_next_time(
    file, turns, monkeypatch
):
    monkeypatch.setattr(trace_file, "BRIEF_MS", 0)
    tried, run = [], file._execute_briefly
    monkeypatch.setattr(file, "_execute_briefly", lambda *given: tried.append(run(*given)))
    assert await count(file) == COUNTED
    assert file._slow == {COUNT}
    assert await count(file) == COUNTED
    assert tried == [None, None]
    assert len(turns) == 2


async def test_no_query_runs_beside_one_in_the_thread(file, turns, monkeypatch):
    monkeypatch.setattr(trace_file, "BRIEF_MS", 59_999)
    with file._using:
        asking = asyncio.create_task(count(file))
        while not turns:
            await asyncio.sleep(0)
    assert await asking == COUNTED


async def test_the_queries_that_are_known_to_be_slow_are_not_too_many(file, monkeypatch):
    monkeypatch.setattr(trace_file, "BRIEF_MS", 0)
    monkeypatch.setattr(trace_file, "_MAX_REMEMBERED", 2)
    for number in range(5):
        await file.execute(f"{COUNT} -- {number}", {"most": COUNTED})
    assert len(file._slow) <= 2
