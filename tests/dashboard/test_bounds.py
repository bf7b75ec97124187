"""What one organisation can take of the web process: memory, threads, descriptors, time."""
# ruff: noqa: S608 - SQL made of text is what is tried here

import asyncio
import gc
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from dashboard.tables import guards, relay
from dashboard.tables.guards import TooLargeError
from dashboard.tables.instances import Instances, TraceFile
from dashboard.tables.mistakes import Asked
from store.traces import TraceDatabase, trace_path
from tests.dashboard.browsing import ENDLESS, OURS, THEIRS, ask_for, record, settle, sql
from tests.store.traffic import make_entry

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


@pytest.fixture
def ann(ann):
    record(ann.path, OURS)
    return ann


@pytest.fixture
def cid(cid):
    record(cid.path, THEIRS)
    return cid


# -- 300 organisations -------------------------------------------------------------------------------


def make_organizations(data_dir, count):
    """Copies of one file: an organisation's id stands nowhere in it."""
    record(data_dir / "first.db", OURS, 1)
    with TraceDatabase(data_dir / "first.db") as traces:
        traces.connection.execute("pragma wal_checkpoint(truncate)")
    content = (data_dir / "first.db").read_bytes()
    for n in range(count):
        path = trace_path(data_dir, f"org_{n}")
        path.parent.mkdir(parents=True)
        path.write_bytes(content)


async def test_three_hundred_organisations_take_no_more_than_the_few_that_stay_open(tmp_path):
    make_organizations(tmp_path, 300)
    process = psutil.Process()
    threads, descriptors = threading.active_count(), process.num_fds()
    instances = Instances(tmp_path)
    for n in range(300):
        answer = await ask_for(instances, f"org_{n}", "/traces/usage/1.json?_shape=array")
        assert answer.status_code == 200
        assert len(instances) <= instances.max_open
    await settle(lambda: threading.active_count() <= threads + instances.max_open)
    # The database, its log and its shared memory.
    await settle(lambda: process.num_fds() <= descriptors + 3 * instances.max_open)
    instances.close()
    await settle(lambda: threading.active_count() <= threads)
    await settle(lambda: process.num_fds() <= descriptors)
    assert len(instances) == 0


# -- time --------------------------------------------------------------------------------------------


async def test_twelve_endless_queries_keep_nobody_else_waiting(client, ann, cid):
    await client.get("/traces/usage", headers=cid.cookie)
    endless = [asyncio.create_task(client.get(sql(ENDLESS), headers=ann.cookie)) for _ in range(12)]
    for _ in range(10):
        assert (await client.get("/traces/usage", headers=cid.cookie)).status_code == 200
        assert (await client.get("/", headers=cid.cookie)).status_code == 200
    assert not any(task.done() for task in endless[1:]), "each waits for the one before"
    for task in endless:
        task.cancel()
    await asyncio.gather(*endless, return_exceptions=True)


SLOW_STEPS = [
    "select printf('%.2000000000c', 'x')",
    "select printf('%.*c', 2000000000, 'x')",
    "select format('%2000000000d', 1)",
    "with l(s) as (select replace(hex(printf('%999d', 1)), '2', printf('%999d', 1)))"
    " select instr(s, substr(s, 1, 900000) || 'b') from l",
    "with l(s) as (select replace(hex(printf('%999d', 1)), '2', printf('%999d', 1)))"
    " select replace(s, substr(s, 1, 900000) || 'b', '') from l",
    "with l(s) as (select replace(hex(printf('%999d', 1)), '2', printf('%999d', 1)))"
    " select trim(s, substr(s, 1, 9000)) from l",
]


@pytest.mark.parametrize("query", SLOW_STEPS)
async def test_a_function_that_nothing_interrupts_is_not_begun(client, ann, query):
    answer = await client.get(sql(query), headers=ann.cookie)
    assert answer.status_code == 400
    assert answer.json()["title"] == "Too large"


async def test_guarded_functions_answer_as_sqlite_does(client, ann):
    question = (
        "select instr('abc', 'c'), instr(null, 'c'), instr(x'0102', x'02'), replace('aba', 'a', 'cc'),"
        " trim('xxaxx', 'x'), ltrim('  a'), rtrim('abb', 'b'), printf('%5.1f|%s|%d', 2.25, 'é', 7),"
        " printf(null), replace(12.5, 2, 3)"
    )
    with closing(sqlite3.connect(":memory:")) as plain:
        expected = plain.execute(question).fetchall()
    answer = await client.get(f"{sql(question)}&_shape=arrays", headers=ann.cookie)
    assert [tuple(row) for row in answer.json()["rows"]] == expected


# -- memory ------------------------------------------------------------------------------------------

LONG = (
    "(select s from (with recursive d(s) as (select 'xxxxxxxxxxxxxxxx' union all select s || s from d"
    " where length(s) < 7000000) select s from d order by length(s) desc limit 1))"
)


def columns(expression, count=99):
    return ", ".join(expression.format(n=n) for n in range(count))


HUNGRY = {
    "copies": f"select {columns('s || {n}')} from {LONG}",
    "blobs": f"select {columns('b')} from (select cast(s as blob) as b from {LONG})",
    "texts": f"select {columns('s')} from {LONG}",
    "hex": f"select hex(s), hex(s || 1), hex(s || 2), upper(s), quote(s) from {LONG}",
    "wide characters": f"select {columns('t')} from (select '😀' || s as t from {LONG})",
    "arguments": f"select length(max({columns('s || {n}')})) from {LONG}",
    "constants": "select 1 from usage where "
    + " or ".join(f"model = {LONG} || {n}" for n in range(40)),
    "groups": f"select {columns('group_concat(s || {n})', 40)} from {LONG}, json_each('[1, 2, 3]')",
    "json": f"select json_array({columns('s')}) from {LONG}",
    "doubling": "with recursive d(s) as (select 'x' union all select s || s from d) select s from d",
}


def peak_mb():
    """Since the last reset; of the whole process."""
    text = Path("/proc/self/status").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1e3


@pytest.mark.parametrize("name", HUNGRY)
async def test_no_query_takes_more_than_200_mb(client, ann, name):
    await client.get("/traces/usage.json", headers=ann.cookie)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before_mb = peak_mb()
    answer = await client.get(sql(HUNGRY[name]), headers=ann.cookie)
    assert answer.status_code == 400, answer.text[:500]
    assert peak_mb() - before_mb < 200


EXPLODING = {
    "names": "with c0(x) as (select 1), "
    + ", ".join(
        f"c{n}(x) as (select (select x from c{n - 1}) + (select x from c{n - 1}))"
        for n in range(1, 30)
    )
    + " select * from c29",
    "columns": f"select {'+'.join('d' * 40)} from (select {'+'.join('c' * 40)} as d from"
    f" (select {'+'.join('b' * 40)} as c from (select {'+'.join('a' * 40)} as b from"
    f" (select {'+'.join(['id'] * 40)} as a from usage))))",
}


@pytest.mark.parametrize("explain", ["", "explain ", "explain query plan "])
@pytest.mark.parametrize("name", EXPLODING)
async def test_a_query_that_means_millions_of_others_is_not_begun(client, ann, name, explain):
    await client.get("/traces/usage.json", headers=ann.cookie)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before_mb = peak_mb()
    answer = await client.get(sql(explain + EXPLODING[name]), headers=ann.cookie)
    assert answer.status_code == 400
    assert "within each other" in answer.json()["error"]
    assert peak_mb() - before_mb < 50


def test_what_sqlite_may_take_has_an_end_whatever_the_query():
    with closing(sqlite3.connect(":memory:")) as connection:
        guards.prepare(connection).close()
        connection.set_authorizer(None)
        (limit,) = connection.execute("pragma hard_heap_limit").fetchone()
    assert limit == guards.MAX_HEAP_BYTES


async def test_a_long_list_in_a_query_is_still_read(client, ann):
    query = f"select count(*) from usage where id in ({','.join(map(str, range(9000)))})"
    with TraceDatabase(ann.path) as traces:
        guard = guards.prepare(traces.connection)
        assert traces.connection.execute(query).fetchone()[0] == 3
        guard.close()


async def test_a_long_body_is_still_read(client, ann):
    body = b'{"a": "' + b"x" * 3_000_000 + b'"}'
    with TraceDatabase(ann.path) as traces:
        traces.insert([make_entry(request_body=body)])
    for query in (
        "select request_body from usage_log order by id desc limit 1",
        "select length(request_body), substr(request_body, 1, 5) from usage_log",
        "select id from usage_log where request_body like '%xxx%'",
    ):
        answer = await client.get(sql(query), headers=ann.cookie)
        assert answer.status_code == 200, answer.text
    page = await client.get("/traces/usage_log", headers=ann.cookie)
    assert page.status_code == 200


def test_what_goes_with_a_connection_is_closed_with_it():
    with closing(sqlite3.connect(":memory:")) as connection:
        guard = guards.prepare(connection)
        with guards.limits(connection, guard, "select 1", {}, 1000):
            assert guards.fetch(connection.execute("select 1"), None) == [(1,)]
        guard.close()
        with (
            pytest.raises(sqlite3.ProgrammingError),
            guards.limits(connection, guard, "select 1", {}, 1000),
        ):
            guard.functions._scratch.execute("select 1")
    assert issubclass(TooLargeError, Exception)


# -- mistakes ----------------------------------------------------------------------------------------

MISTAKES = [
    ("usage", "_sort=nope"),
    ("usage", "_sort_desc=nope"),
    ("usage", "_sort=id&_sort_desc=id"),
    ("usage", "_facet=nope"),
    ("usage", '_facet={"a":1}'),
    ("usage", "_facet_array=nope"),
    ("usage", "nope=1"),
    ("usage", "nope__gt=1"),
    ("usage", "id__in=[1"),
    ("usage", "_size=abc"),
    ("usage", "_size=9999"),
    ("usage", "_next=a,b,c,d"),
    ("usage_log", "_next=garbage"),
    ("usage", "_col=nope"),
    ("usage", "_nocol=id"),
    ("usage", "_where=nonsense("),
    ("usage", "_timelimit=abc"),
    ("usage", "_through=nope"),
    ("usage", '_through={"table":"nope","column":"nope","value":1}'),
    ("usage_cost/1", ""),
]


@pytest.mark.parametrize(("table", "query"), MISTAKES)
async def test_a_mistake_in_the_address_is_told(client, ann, settings, table, query):
    for suffix in ("", ".json"):
        answer = await client.get(f"/traces/{table}{suffix}?{query}", headers=ann.cookie)
        assert answer.status_code == 400
        assert str(settings.data_dir) not in answer.text
        if suffix:
            assert answer.json()["ok"] is False
            assert answer.json()["error"]
        else:
            assert 'class="problem"' in answer.text
            assert "<h1" in answer.text
            assert "internal" not in answer.text


@pytest.mark.parametrize("query", ["select nope", "select", "select json('x')"])
async def test_a_query_with_a_mistake_is_no_empty_csv(client, ann, query):
    answer = await client.get(sql(query, ".csv"), headers=ann.cookie)
    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize("suffix", ["", ".json", ".csv"])
async def test_what_took_too_long_says_what_to_do(client, ann, suffix):
    answer = await client.get(sql(ENDLESS, suffix) + "&_timelimit=20", headers=ann.cookie)
    assert answer.status_code == 400
    assert "took too long" in answer.text
    assert "<script>" not in answer.text
    assert "sql_time_limit_ms" not in answer.text


@pytest.mark.parametrize("suffix", ["", ".json"])
async def test_a_file_that_cannot_be_read_is_our_fault_and_tells_nothing(
    client, ann, settings, caplog, suffix
):
    await client.get("/traces/usage", headers=ann.cookie)
    ann.path.write_bytes(b"not a database" * 1000)
    answer = await client.get(f"/traces/usage{suffix}", headers=ann.cookie)
    assert answer.status_code == 500
    assert "This page could not be shown" in answer.text
    assert ("<h1" in answer.text) == (not suffix)
    assert str(settings.data_dir) not in answer.text
    assert "could not answer" in caplog.text


# -- exports -----------------------------------------------------------------------------------------


async def test_a_stream_ends_when_its_reader_leaves(tmp_path):
    record(trace_path(tmp_path, "org"), OURS, 2000)
    instances = Instances(tmp_path)
    has_left, chunks = asyncio.Event(), 0

    async def receive():
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        nonlocal chunks
        chunks += 1
        if chunks == 3:
            has_left.set()
        await asyncio.sleep(0)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/traces/usage.csv",
        "raw_path": b"/traces/usage.csv",
        "query_string": b"_stream=1",
        "headers": [(b"host", b"meter.example")],
        "scheme": "http",
        "taximeter": Asked(is_for_program=True),
    }
    with instances.use("org") as app:
        assert app is not None
        await relay.ask(app, scope, receive, send)
    assert chunks < 100
    instances.close()


async def test_a_stream_of_many_rows_is_whole(client, ann):
    record(ann.path, OURS, 700)
    for table in ("usage", "usage_log"):
        answer = await client.get(f"/traces/{table}.csv?_stream=1", headers=ann.bearer)
        assert answer.status_code == 200
        assert len({line for line in answer.text.splitlines() if line}) == 704


@pytest.mark.parametrize("path", ["usage", "usage/1", "usage_log.json", "usage.csv?_stream=1"])
async def test_head_of_anything_has_no_body(client, ann, path):
    answer = await client.head(f"/traces/{path}", headers=ann.cookie)
    assert answer.status_code == 200
    assert answer.content == b""


async def test_head_of_a_stream_reads_no_more_than_its_beginning(client, ann, monkeypatch):
    asked = 0
    ask = TraceFile.execute

    async def count(*arguments, **options):
        nonlocal asked
        asked += "limit 51" in arguments[1]
        return await ask(*arguments, **options)

    record(ann.path, OURS, 300)
    monkeypatch.setattr(TraceFile, "execute", count)
    await client.head("/traces/usage.csv?_stream=1", headers=ann.cookie)
    assert asked == 1


async def test_a_part_of_an_answer_cannot_be_asked_for(client, ann):
    for path in ("/traces/usage.json", "/traces/usage.csv?_stream=1"):
        answer = await client.get(path, headers=ann.cookie | {"range": "bytes=0-9"})
        assert answer.status_code == 200
        assert len(answer.content) > 10
