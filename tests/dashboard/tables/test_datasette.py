"""The trace browser as the web process serves it: two organisations, and what one may try."""

import asyncio
import gc
import html
import json
import re
import sqlite3
import threading
import time
import weakref
from contextlib import closing
from urllib.parse import quote

import pytest

from dashboard.queries import query as query_module
from dashboard.tables import query_limits
from dashboard.tables.instances import Instances
from dashboard.tables.lean_datasette import Datasette
from dashboard.tables.metadata import METADATA_PATH
from dashboard.tables.trace_browser import SETTINGS
from dashboard.tables.trace_file import TraceFile
from runtime.organization_locks import MAX_WAITING
from store.control import api_keys
from store.control.sign_in import SignIn
from store.traces.paths import trace_path, traces_folder
from tests.dashboard.browsing import (
    ENDLESS,
    OURS,
    THEIRS,
    ask_for,
    find_open,
    record,
    settle,
    sql,
)
from tests.dashboard.people import BASE_URL, Someone

JSON = {"accept": "application/json"}

# Plain Datasette leaves its connections in memory to the collector, which warns in some later test.
# That ours are closed is seen by counting descriptors.
pytestmark = [
    # When one of several questions for a page fails, Datasette forgets the others.
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


# -- who may see what --------------------------------------------------------------------------------


async def test_a_service_api_key_reads_and_its_use_is_noted(client, ann, control):
    answer = await client.get("/traces/usage_log.json?_shape=array", headers=ann.bearer)
    assert answer.status_code == 200
    assert [row["slug"] for row in answer.json()] == [OURS] * 3
    assert [row["id"] for row in answer.json()] == [3, 2, 1], "newest first"
    with control.reading() as db:
        holder = api_keys.find_holder(db, ann.raw_key)
    assert holder is not None
    assert holder.last_used_at is not None


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/traces", {}, 303),
        ("/traces/usage/1", {"accept": "text/html,application/json;q=0.5"}, 303),
        ("/traces/usage_log.json", {}, 401),
        ("/traces.json", {}, 401),
        ("/traces/usage_log.csv", {}, 401),
        ("/traces/usage_log", JSON, 401),
        ("/traces/usage_log", {"authorization": "Bearer sk_forged"}, 401),
        ("/traces/usage_log", {"authorization": "Basic YTpi"}, 401),
    ],
)
async def test_the_signed_out_are_asked_to_sign_in(client, ann, path, headers, status):
    answer = await client.get(path, headers=headers)
    assert answer.status_code == status
    if status == 303:
        assert answer.headers["location"] == f"/sign-in?next={quote(path)}"
    else:
        assert answer.json()["error"]["code"] == "not_signed_in"
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_the_address_to_come_back_to_is_one_of_ours(client):
    for path in ("/traces?sql=select+1&x=//evil.example", "/traces//evil.example"):
        location = (await client.get(path)).headers["location"]
        assert location.startswith("/sign-in?next=/traces")
        assert not set(location) & set("\r\n&")


async def test_what_was_revoked_is_refused_at_once(client, ann, control):
    assert (await client.get("/traces.json", headers=ann.bearer)).status_code == 200
    assert (await client.get("/traces.json", headers=ann.cookie)).status_code == 200
    with control.transaction() as db:
        api_keys.delete(db, ann.organization_id, ann.user_id, ann.key.id)
    assert (await client.get("/traces.json", headers=ann.bearer)).status_code == 401
    SignIn(control).sign_out(ann.session)
    assert (await client.get("/traces.json", headers=ann.cookie)).status_code == 401


async def test_an_expired_session_is_refused(client, ann, control):
    with control.transaction() as db:
        db.execute("update sessions set seen_at = '2020-01-01T00:00:00.000Z'")
    assert (await client.get("/traces", headers=ann.cookie)).status_code == 303


async def test_a_bad_key_is_not_made_good_by_a_session(client, ann):
    headers = ann.cookie | {"authorization": "Bearer sk_" + "x" * 43}
    assert (await client.get("/traces.json", headers=headers)).status_code == 401


async def test_before_the_first_call_a_page_says_so(client, control, settings):
    new = Someone(control, settings.data_dir, "new@example.org")
    page = await client.get("/traces", headers=new.cookie)
    assert page.status_code == 200
    assert "Nothing has been recorded yet" in page.text
    answer = await client.get("/traces/usage_log.json", headers=new.cookie)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "nothing_recorded")
    assert not new.path.exists()
    record(new.path, "first-call")
    assert "first-call" in (await client.get("/traces/usage", headers=new.cookie)).text


# -- attacks -----------------------------------------------------------------------------------------

DANGEROUS_SQL = [
    "select * from pragma_database_list",
    "select file from pragma_database_list()",
    "select * from pragma_database_list where seq = 0",
    "select * from pragma_compile_options",
    "select * from pragma_module_list",
    "select sql from sqlite_stmt",
    "select name, path from dbstat",
    "pragma database_list",
    "explain pragma database_list",
    "attach database '{path}' as theirs",
    "select 1; attach database '{path}' as theirs",
    "with a as (select 1) insert into usage (entry_id) values ('x') returning *",
    "with a as (select 1) delete from usage",
    "with a as (select 1) update usage set slug = 'x'",
    "vacuum into '/tmp/out.db'",
    "select load_extension('{path}')",
    "select readfile('{path}')",
    "select writefile('/tmp/x', 'y')",
    "select edit('x', 'cat {path}')",
    "select fts3_tokenizer('simple')",
    "select hex(fts3_tokenizer('simple'))",
    "select randomblob(900000000)",
    "select length(zeroblob(900000000))",
    "select printf('%900000000d', 1)",
    "select * from theirs.usage_log",
    "select * from [{path}].usage",
    "select * from _internal.databases",
    "select sqlite_source_id()",
    "select sqlite_compileoption_get(1)",
    "create temp table x as select 1",
    "detach database main",
    "select * from usage where slug = :_header_cookie",
]


@pytest.mark.slow
async def test_dangerous_sql_shows_nothing(client, ann, cid, settings, subtests):
    for query in DANGEROUS_SQL:
        for suffix in (".json", "", ".csv"):
            with subtests.test(query, suffix=suffix):
                address = sql(query.format(path=cid.path), suffix)
                answer = await client.get(address, headers=ann.cookie)
                # What was asked is shown again.
                assert_harmless(html.unescape(answer.text).replace(str(cid.path), ""), settings)
                if suffix == ".json" and "_header" not in query and "printf" not in query:
                    assert answer.status_code == 400, answer.text
        with closing(sqlite3.connect(ann.path)) as db:
            assert db.execute("select count(*), min(slug) from usage").fetchone() == (3, OURS)


def assert_harmless(text, settings):
    assert THEIRS not in text
    assert str(settings.data_dir) not in text
    assert "site-packages" not in text
    assert "Traceback" not in text


ADDRESSES = [
    "/-/settings",
    "/-/settings.json",
    "/-/config.json",
    "/-/versions.json",
    "/-/threads.json",
    "/-/patterns",
    "/-/messages",
    "/-/allow-debug",
    "/-/databases.json",
    "/-/plugins.json",
    "/-/metadata.json",
    "/-/actor.json",
    "/-/permissions",
    "/-/auth-token?token=x",
    "/-/logout",
    "/-/static/../settings",
    "/-/static/%2e%2e/%2e%2e/app.py",
    "/-/static/..%2f..%2fapp.py",
    "/_internal",
    "/_internal/databases.json",
    "/_memory",
    "/_memory.json?sql=select+1",
    "/:memory:",
    "/traces.db",
    "/traces.db?x",
    "/traces_2",
    "/tracesx",
    "/%74races",
    "/traces/..%2f_internal.json",
    "/traces/../_internal.json",
    "/traces/%2e%2e/_internal/databases.json",
    "/traces/-/settings",
    "/traces/../-/settings.json",
    "/traces/usage/1.blob?_blob_column=../../{path}",
    "/traces/..%2f..%2f{id}%2ftraces/usage.json",
    "/traces/usage~2f..~2f..~2f{id}",
    "/traces/usage.json?_trace=1",
    "/traces/usage?_context=1",
    "/traces/usage?_where=1=(select+file+from+pragma_database_list)",
    "/traces/usage.json?_facet=sqlite_version()",
    "/traces/usage.json?_actor={user}&actor={user}&organization_id={id}&database=../{id}/traces",
    "/traces/usage.json?_sort=randomblob(9)",
    "/traces/usage.json?_extra=database&_labels=on",
    "/traces/usage.csv?_stream=1&_size=max&_database={id}",
    "/traces/usage.jsonl?_database={id}",
    "/traces/..%2f..%2f{id}%2ftraces/usage.jsonl",
    "/traces/usage.json?_next='||(select+file+from+pragma_database_list)||'",
    "/traces/%ff%fe",
    "/traces/usage/%00",
]


async def test_no_address_leads_elsewhere(client, ann, cid, settings, subtests):
    known = {"path": cid.path, "id": cid.organization_id, "user": cid.user_id}
    for address in ADDRESSES:
        with subtests.test(address):
            answer = await client.get(address.format(**known), headers=ann.cookie)
            assert answer.status_code in (200, 301, 302, 303, 400, 404) or "_sort" in address
            assert_harmless(html.unescape(answer.text).replace(str(cid.path), ""), settings)
            if address.startswith(("/-/", "/_", "/:", "/traces.db", "/traces_", "/tracesx")):
                assert answer.status_code == 404
            if "location" in answer.headers:
                assert answer.headers["location"].startswith("/traces")


HEADERS = [
    ("x-forwarded-host", "evil.example"),
    ("x-taximeter-client", "x 127.0.0.1"),
    ("x-organization-id", "{id}"),
    ("x-original-url", "/-/settings.json"),
    ("x-rewrite-url", "/-/databases.json"),
    ("forwarded", "host=evil.example"),
    ("cookie", "{own}; ds_actor=eyJhIjp7ImlkIjoicm9vdCJ9fQ.x"),
    ("cookie", "{own}; ds_messages=x; ds_csrftoken=y"),
    ("cookie", "{own}; organization={id}; __Host-taximeter={theirs_forged}"),
    ("cookie", "{own}; user_id={user}"),
    ("range", "bytes=0-100000"),
    ("if-none-match", "*"),
]


async def test_no_header_leads_elsewhere(client, ann, cid, settings, subtests):
    known = {
        "id": cid.organization_id,
        "user": cid.user_id,
        "own": ann.cookie["cookie"],
        "theirs_forged": cid.session[:-1] + "_",
    }
    for name, value in HEADERS:
        with subtests.test(f"{name}: {value}"):
            sent = ann.cookie | {name: value.format(**known)}
            answer = await client.get("/traces/usage_log", headers=sent)
            assert answer.status_code == 200
            assert OURS in answer.text
            assert "evil.example" not in answer.text
            assert "set-cookie" not in answer.headers
            assert_harmless(answer.text, settings)


async def test_traces_can_only_be_read(client, ann):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = await client.request(method, "/traces/usage/1", headers=ann.cookie)
        assert answer.status_code == 405, method


async def test_an_export_holds_only_what_is_ours(client, ann, cid, settings):
    for suffix in ("csv?_stream=1", "csv?_dl=1", "jsonl", "json?_shape=array&_nl=on", "jsono"):
        url = f"/traces/usage_log.{suffix}"
        answer = await client.get(url, headers=ann.bearer, follow_redirects=True)
        assert answer.status_code == 200, suffix
        assert answer.text.count(OURS) >= 3, suffix
        assert_harmless(answer.text, settings)


async def test_two_organisations_at_once_are_never_mixed_up(client, ann, cid):
    async def ask(someone, marker, other):
        answer = await client.get("/traces/usage.json", headers=someone.cookie)
        assert marker in answer.text
        assert other not in answer.text

    # Fewer at once than an organisation may have.
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(ask(ann, OURS, THEIRS))
            group.create_task(ask(cid, THEIRS, OURS))


# -- limits ------------------------------------------------------------------------------------------


class Endless:
    """The time of the query ``ENDLESS``, which is over when a test says so."""

    def __init__(self):
        self.begun = threading.Event()
        self._ahead_s = 0.0

    def monotonic(self):
        return time.monotonic() + self._ahead_s

    def end(self):
        self._ahead_s = LONG_S


LONG_S = 60.0


@pytest.fixture
def endless(monkeypatch):
    endless, execute = Endless(), TraceFile.execute

    async def notice(file, query, *others, **options):
        if query == ENDLESS:
            endless.begun.set()
        return await execute(file, query, *others, **options)

    monkeypatch.setattr(TraceFile, "execute", notice)
    monkeypatch.setattr(query_limits, "time", endless)
    monkeypatch.setattr(query_module, "DEADLINE_S", LONG_S)
    monkeypatch.setitem(SETTINGS, "sql_time_limit_ms", 1000 * LONG_S)
    return endless


async def test_too_much_at_once_is_refused_for_that_organisation_only(client, ann, cid):
    many = [asyncio.create_task(client.get(sql(ENDLESS), headers=ann.cookie)) for _ in range(20)]
    await settle(lambda: sum(task.done() for task in many) == len(many) - MAX_WAITING)
    done, waiting = await asyncio.wait(many, timeout=0)
    assert {task.result().status_code for task in done} == {503}
    assert (await client.get("/traces.json", headers=cid.cookie)).status_code == 200
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize("suffix", ["", ".json", ".csv"])
async def test_a_result_is_refused_as_soon_as_it_is_larger_than_16_mb(client, ann, suffix):
    a_megabyte = "replace(printf('%999d', i), ' ', printf('%999d', i))"
    query = (
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300)"  # noqa: S608
        f" select i, case when i <= 20 then {a_megabyte} else ({ENDLESS}) end as body from n"
    )
    answer = await client.get(sql(query, suffix), headers=ann.cookie)
    assert answer.status_code == 400
    assert "larger than 16 MB" in html.unescape(answer.text)
    assert len(answer.content) < 100_000


async def test_ordinary_questions_are_answered(client, ann):
    for query in (
        "select slug, count(*), group_concat(id), printf('%.2f', sum(cost_cents)) from usage group by 1",
        "select length(request_body), substr(response_body, 1, 5) from usage_log",
        "select value from json_each('[1, 2]')",
        "select name from sqlite_master",
        "explain query plan select * from usage",
        "select row_number() over (order by id) from usage where slug like 'mark%'",
    ):
        answer = await client.get(sql(query), headers=ann.cookie)
        assert answer.status_code == 200, (query, answer.text)
        assert answer.json()["rows"], query


# -- pages -------------------------------------------------------------------------------------------


async def test_bodies_of_markup_are_shown_as_text(client, ann):
    for path in (
        "/traces/usage_log",
        sql("select * from usage_log", ""),
        "/traces/response_bodies/1",
    ):
        page = await client.get(path, headers=ann.cookie)
        assert page.status_code == 200
        assert "<img src=x" not in page.text
        assert "&lt;img src=x" in page.text
        assert "<script>alert" not in page.text


WITHOUT_SCRIPTS = [
    "/traces",
    "/traces/usage",
    "/traces/usage_log",
    "/traces/usage/1",
    "/traces/errors_by_type",
    "/traces?sql=select+1",
    "/traces?sql=select+nonsense",
    "/traces/nowhere",
]


@pytest.mark.slow
async def test_no_page_has_a_script_in_it_and_its_policy_forbids_them(client, ann, subtests):
    for path in WITHOUT_SCRIPTS:
        with subtests.test(path):
            await check_scripts(client, await client.get(path, headers=ann.cookie))


async def check_scripts(client, page):
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page.text, re.DOTALL)
    for attributes, text in scripts:
        assert "src=" in attributes
        assert not text.strip()
    assert not re.search(r"<[^>]*\son\w+\s*=", page.text)
    policies = page.headers.get_list("content-security-policy")
    assert len(policies) == 1
    assert "script-src 'self';" in policies[0]
    assert "'unsafe-inline'" not in policies[0].partition("script-src")[2].partition(";")[0]
    assert "frame-ancestors 'none'" in policies[0]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "private, no-store"
    for source in re.findall(r"""(?:src|href)="(/(?:-/)?static/[^"]+)""", page.text):
        assert (await client.get(source)).status_code == 200, source


async def test_links_have_the_address_people_use(client, ann):
    page = await client.get("/traces/usage?_size=1&_facet=slug", headers=ann.cookie)
    assert f"{BASE_URL}/traces/usage?" in page.text
    following = re.search(r'href="([^"]*_next=[^"]*)"', page.text)
    assert following is not None
    assert (await client.get(html.unescape(following[1]), headers=ann.cookie)).status_code == 200


# -- instances ---------------------------------------------------------------------------------------


async def test_the_thread_of_a_closed_instance_is_let_go_without_a_collection(tmp_path):
    """Its stack takes eight megabytes of addresses, of which a query process has few."""
    for n in range(2):
        record(trace_path(tmp_path, f"org_{n}"), f"marker-{n}", 1)
    instances = Instances(traces_folder(tmp_path), max_open=1)
    gc.disable()
    try:
        others = set(threading.enumerate())
        await ask_for(instances, "org_0")
        (thread,) = set(threading.enumerate()) - others
        let_go = weakref.ref(thread)
        del thread
        await ask_for(instances, "org_1")
        await settle(lambda: let_go() is None)
    finally:
        gc.enable()
        instances.close()


async def test_an_instance_that_runs_a_query_is_not_closed(endless, tmp_path):
    for n in range(3):
        record(trace_path(tmp_path, f"org_{n}"), f"marker-{n}", 1)
    instances = Instances(traces_folder(tmp_path), max_open=1)
    running = asyncio.create_task(ask_for(instances, "org_0", sql(ENDLESS)))
    await settle(endless.begun.is_set)
    for n in (1, 2):
        await ask_for(instances, f"org_{n}")
    endless.end()
    assert (await running).status_code == 400, "it ended by its time limit"
    assert "marker-0" in (await ask_for(instances, "org_0")).text
    assert len(instances) == 1
    instances.close()


async def test_a_replaced_file_is_opened_again_and_a_deleted_one_let_go(tmp_path):
    path = trace_path(tmp_path, "org")
    record(path, "before")
    instances = Instances(traces_folder(tmp_path))
    assert "before" in (await ask_for(instances, "org")).text
    record(tmp_path / "new" / "traces.db", "after")
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    (tmp_path / "new" / "traces.db").rename(path)
    text = (await ask_for(instances, "org")).text
    assert "after" in text
    assert "before" not in text
    path.unlink()
    with instances.use("org") as app:
        assert app is None
    await settle(lambda: not find_open(tmp_path))


async def test_new_entries_show_at_once(client, ann):
    before = (await client.get("/traces/usage.json", headers=ann.cookie)).json()
    record(ann.path, OURS, 2)
    after = (await client.get("/traces/usage.json", headers=ann.cookie)).json()
    assert len(after["rows"]) == len(before["rows"]) + 2


# -- the metadata file -------------------------------------------------------------------------------


@pytest.fixture
async def plain(tmp_path):
    """A client of what `datasette traces.db --metadata datasette-metadata.json` serves."""
    path = tmp_path / "traces.db"
    record(path, OURS)
    metadata = json.loads(METADATA_PATH.read_text())
    # Without threads, so that every connection can be closed here.
    datasette = Datasette([str(path)], metadata=metadata, settings={"num_sql_threads": 0})
    yield datasette
    for database in datasette.databases.values():
        for connection in (database._read_connection, database._write_connection):
            if connection is not None:
                connection.close()


METADATA = json.loads(METADATA_PATH.read_text())["databases"]["traces"]


@pytest.mark.slow
async def test_plain_datasette_shows_the_same_with_the_metadata_file(plain):
    page = await plain.client.get("/traces")
    assert page.status_code == 200
    for query in METADATA["queries"].values():
        assert query["title"] in page.text
    tables = (await plain.client.get("/traces.json")).json()["tables"]
    assert {table["name"] for table in tables if not table["hidden"]} == {
        "cache_breaks",
        "labels",
        "notes",
        "tags",
        "tags_hourly",
        "credential_accounts",
        "limit_readings",
        "output_sizes",
        "rate_limits",
        "rate_limits_hourly",
        "savings",
        "upstream_objects",
        "usage",
        "tool_targets_daily",
        "tool_uses",
        "tools_daily",
        "usage_cost",
        "usage_hourly",
    }


@pytest.mark.slow
async def test_every_canned_query_answers(plain, client, ann, subtests):
    for name, query in METADATA["queries"].items():
        with subtests.test(name):
            answer = await plain.client.get(f"/traces/{name}.json")
            assert answer.status_code == 200, answer.text
            ours = await client.get(f"/traces/{name}.json", headers=ann.cookie)
            assert ours.status_code == 200
            for page in (
                await plain.client.get(f"/traces/{name}"),
                await client.get(f"/traces/{name}?days=3650", headers=ann.cookie),
            ):
                assert page.status_code == 200
                assert query["title"] in page.text


async def test_canned_queries_find_what_is_there(client, ann):
    for name in ("cost_by_day_and_model", "cost_by_session", "cache_hit_ratio", "cost_explained"):
        answer = await client.get(f"/traces/{name}.json?days=3650&_shape=array", headers=ann.cookie)
        assert answer.json(), name


@pytest.mark.slow
async def test_every_column_is_described(plain, subtests):
    tables = METADATA["tables"].items()
    for table, about in ((name, about) for name, about in tables if "columns" in about):
        with subtests.test(table):
            answer = await plain.client.get(f"/traces/{table}.json?_size=1")
            assert list(about["columns"]) == answer.json()["columns"]
            page = await plain.client.get(f"/traces/{table}")
            assert page.status_code == 200
            assert about["title"] in page.text


async def test_a_row_of_the_view_has_an_address_too(client, ann):
    page = await client.get("/traces/usage_log/1", headers=ann.cookie)
    assert page.status_code == 200
    assert OURS in page.text
    answer = await client.get("/traces/usage_log/1.json", headers=ann.bearer)
    assert answer.json()["rows"][0][0] == 1
    assert (await client.get("/traces/usage_log/99", headers=ann.cookie)).status_code == 404


async def test_a_page_tells_its_size_and_a_download_ends_by_itself(client, ann):
    for path in ("/traces/usage", "/traces/usage.json", "/traces/nothing", "/traces/"):
        answer = await client.get(path, headers=ann.cookie)
        assert int(answer.headers["content-length"]) == len(answer.content)
    answer = await client.get("/traces/usage.csv?_stream=1", headers=ann.cookie)
    assert "content-length" not in answer.headers
    assert answer.text.count("\r\n") == 4


async def test_no_page_sets_a_cookie(client, ann):
    for path in ("/traces", "/traces/usage", "/traces/usage/1.json", "/traces/nothing"):
        answer = await client.get(path, headers=ann.cookie)
        assert "set-cookie" not in answer.headers
