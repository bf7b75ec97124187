"""Bounds on what one organisation takes of the web process: memory, threads, descriptors, time."""
# ruff: noqa: S608 - SQL made of text is what is tried here

import asyncio
import sqlite3
import threading
from contextlib import suppress

import datasette.utils.asgi
import psutil
import pytest

from dashboard.queries import query as query_module, query_proxy, responses
from dashboard.tables import query_limits
from dashboard.tables.instances import Instances
from dashboard.tables.trace_browser import SETTINGS
from dashboard.tables.trace_file import TraceFile
from store.control import people
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path, traces_folder
from tests.dashboard.browsing import ENDLESS, OURS, THEIRS, ask_for, record, settle, sql
from tests.dashboard.people import Someone
from tests.store.traffic import make_entry

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture
def ann(ann):
    record(ann.path, OURS)
    return ann


@pytest.fixture
def cid(cid):
    record(cid.path, THEIRS)
    return cid


# -- 100 organisations -------------------------------------------------------------------------------


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


@pytest.mark.slow
async def test_a_hundred_organisations_take_no_more_than_the_few_that_stay_open(tmp_path):
    make_organizations(tmp_path, 100)
    process = psutil.Process()
    threads, descriptors = threading.active_count(), process.num_fds()
    instances = Instances(traces_folder(tmp_path))
    for n in range(100):
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
    assert not all(task.done() for task in endless), "each waits for the one before"
    for task in endless:
        task.cancel()
    await asyncio.gather(*endless, return_exceptions=True)


async def test_the_arguments_of_a_page_are_parsed_only_once_or_twice(tmp_path, monkeypatch):
    """A long query takes 3 ms each time, and a page looks at its arguments dozens of times."""
    parsed: list[object] = []
    parse = datasette.utils.asgi.parse_qs

    def parse_and_count(*given, **more):
        parsed.append(given)
        return parse(*given, **more)

    monkeypatch.setattr("datasette.utils.asgi.parse_qs", parse_and_count)
    make_organizations(tmp_path, 1)
    instances = Instances(traces_folder(tmp_path))
    answer = await ask_for(instances, "org_0", "/traces/usage?_size=1&_facet=model")
    instances.close()
    assert answer.status_code == 200
    assert 1 <= len(parsed) <= 3


def test_a_query_for_which_nobody_waits_is_interrupted(ann):
    abandoned = threading.Event()
    query = f"select count(*) from json_each('[{'0,' * 9_999}0]')"
    with (
        TraceDatabase(ann.path) as traces,
        query_limits.limits(traces.connection, 60_000, abandoned),
    ):
        assert traces.connection.execute(query).fetchone()[0] == 10_000
        abandoned.set()
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            traces.connection.execute(query)


@pytest.mark.slow
async def test_what_has_to_be_stopped_says_what_to_do_and_then_to_wait(
    client, ann, cid, monkeypatch
):
    monkeypatch.setattr(query_proxy, "QUICK_S", 0.05)
    monkeypatch.setattr(query_module, "DEADLINE_S", 0.05)
    for suffix in ("", ".json", ".json"):
        answer = await client.get(sql(ENDLESS, suffix), headers=ann.cookie)
        assert answer.status_code == 400
        assert "The query was stopped" in answer.text
    for module, name in ((query_proxy, "QUICK_S"), (query_module, "DEADLINE_S")):
        monkeypatch.setattr(module, name, 60.0)
    answer = await client.get("/traces/usage.json", headers=ann.cookie)
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert answer.json()["error"]["code"] == "rate_limited"
    assert (await client.get("/traces/usage", headers=ann.cookie)).status_code == 429
    assert (await client.get("/traces/usage", headers=cid.cookie)).status_code == 200
    assert (await client.get("/", headers=ann.cookie)).status_code == 200


async def test_a_download_too_many_says_when_to_start_it(client, ann, monkeypatch):
    monkeypatch.setattr(query_proxy, "MAX_DOWNLOADS", 0)
    answer = await client.get("/traces/usage.csv?_stream=1", headers=ann.bearer)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert "Start this one when one of them has ended" in answer.json()["error"]["message"]
    assert (await client.get("/traces/usage.csv", headers=ann.bearer)).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("signed_in_by", ["cookie", "bearer"])
async def test_a_download_ends_when_its_reader_is_removed(
    client, ann, control, settings, monkeypatch, caplog, signed_in_by
):
    """Entries that came after the removal were in it."""
    record(ann.path, OURS, 1000)
    member = Someone(control, settings.data_dir, "bob@example.org", ann.organization_id)
    headers = getattr(member, signed_in_by)
    parts, pass_on = 0, responses.Body._send_part

    async def remove_meanwhile(body, part):
        nonlocal parts
        parts += 1
        if parts == 3:
            with control.transaction() as db:
                people.remove_member(db, member.organization_id, member.user_id)
        await pass_on(body, part)

    monkeypatch.setattr(query_module, "RECHECK_S", 0.0)
    monkeypatch.setattr(responses.Body, "_send_part", remove_meanwhile)
    with suppress(AssertionError):  # of the client, which wants an end
        await client.get("/traces/usage.csv?_stream=1", headers=headers)
    assert parts == 3
    assert "may no longer read" in caplog.text


# -- memory ------------------------------------------------------------------------------------------


async def test_a_long_list_in_a_query_is_still_read(client, ann):
    query = f"select count(*) from usage where id in ({','.join(map(str, range(9000)))})"
    with TraceDatabase(ann.path) as traces:
        query_limits.prepare(traces.connection)
        assert traces.connection.execute(query).fetchone()[0] == 3


async def test_full_text_can_be_queried_and_nothing_be_written(ann):
    with TraceDatabase(ann.path) as traces:
        query_limits.prepare(traces.connection)
        found = "select rowid from search_text where search_text match 'wombat'"
        assert traces.connection.execute(found).fetchall() == []
        with pytest.raises(sqlite3.OperationalError):
            traces.connection.execute("update sqlite_master set sql = 'x'")


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


@pytest.mark.parametrize("suffix", ["", ".json"])
async def test_a_mistake_in_the_address_is_told(client, ann, settings, subtests, suffix):
    for table, query in MISTAKES:
        with subtests.test(f"{table}?{query}"):
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
    assert_took_too_long(answer)


@pytest.mark.parametrize(
    "address", ["/traces/usage", "/traces/usage.json", "/traces/usage_log.csv"]
)
async def test_a_list_that_took_too_long_says_what_to_do(client, ann, monkeypatch, address):
    ann.record(*({} for _ in range(20)))
    monkeypatch.setitem(SETTINGS, "sql_time_limit_ms", 0)
    assert_took_too_long(await client.get(address, headers=ann.cookie))


def assert_took_too_long(answer):
    assert answer.status_code == 400
    assert "took too long" in answer.text
    assert "try again in a moment" in answer.text
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
    assert "Datasette failed on a request" in caplog.text


# -- exports -----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_stream_of_many_rows_is_whole(client, ann):
    record(ann.path, OURS, 700)
    for table in ("usage", "usage_log"):
        answer = await client.get(f"/traces/{table}.csv?_stream=1", headers=ann.bearer)
        assert answer.status_code == 200
        assert len({line for line in answer.text.splitlines() if line}) == 704


@pytest.mark.parametrize(
    "path", ["usage", "usage/1/request", "usage_log.json", "usage.csv?_stream=1", "usage.jsonl"]
)
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
