"""Downloads of filtered lists as JSON Lines and Parquet, and as CSV, of which no cell is a formula."""

import asyncio
import csv
import io
import json
from datetime import datetime
from decimal import Decimal
from urllib.parse import quote

import pytest

from dashboard.export import conversion
from dashboard.queries import query as query_module
from dashboard.slow_readers import CutError
from dashboard.visitors import Visitors
from store.control.sign_in import SignIn
from tests.dashboard.browsing import OURS, THEIRS, record, sql
from tests.lazily import import_lazily

pq = import_lazily("pyarrow.parquet")  # which takes a sixth of a second, with numpy

FORMULAS = ("=cmd|'/c calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\tx", "\rx")
DAY = "2026-01-{:02d}T12:00:00.000Z"


@pytest.fixture
def calls(ann, cid):
    record(cid.path, THEIRS)
    ann.record(
        *(
            {
                "created_at": DAY.format(n),
                "model": "a" if n % 2 else "b",
                "cost_cents": Decimal(n) / 10,
            }
            for n in range(1, 9)
        ),
        {"created_at": DAY.format(9), "model": None, "cost_cents": None},
    )
    return ann


@pytest.fixture
def ask(client, calls):
    async def ask(path, status=200, headers=None):
        answer = await client.get(path, headers=headers or calls.cookie)
        assert answer.status_code == status, answer.text
        return answer

    return ask


def lines(answer):
    return [json.loads(line) for line in answer.text.splitlines()]


def table(answer):
    return pq.read_table(io.BytesIO(answer.content)).to_pylist()


@pytest.mark.parametrize(
    "query", ["", "?_size=3", "?_size=3&_next=2026-01-05T12~3A00~3A00~2E000Z%2C5"]
)
async def test_json_lines_have_every_row_of_the_list_whichever_page_was_looked_at(ask, query):
    answer = await ask(f"/traces/usage.jsonl{query}")
    assert [row["id"] for row in lines(answer)] == list(range(9, 0, -1))
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="usage.jsonl"'


async def test_filters_sorting_and_columns_are_those_of_the_page(ask):
    path = "/traces/usage.{}?model=a&_sort=cost_cents&_col=cost_cents&created_at__gte=2026-01-03"
    expected = [(3, 0.3), (5, 0.5), (7, 0.7)]
    found = lines(await ask(path.format("jsonl")))
    assert [tuple(row.values()) for row in found] == expected
    found = table(await ask(path.format("parquet")))
    assert [tuple(row.values()) for row in found] == [(i, Decimal(str(c))) for i, c in expected]


async def test_parquet_has_the_types_of_the_schema_also_without_rows(ask):
    answers = [await ask(f"/traces/usage.parquet{query}") for query in ("", "?model=nobody")]
    full, empty = (pq.read_schema(io.BytesIO(answer.content)) for answer in answers)
    assert full == empty
    assert str(full.field("created_at").type) == "timestamp[us, tz=UTC]"
    assert str(full.field("cost_cents").type) == "decimal128(38, 18)"
    assert str(full.field("input_tokens").type) == "int64"


async def test_many_pages_of_rows_are_whole_and_the_same_in_both_formats(ask, ann):
    ann.record(*({} for _ in range(700)))
    written = lines(await ask("/traces/usage_log.jsonl"))
    read = table(await ask("/traces/usage_log.parquet"))
    assert len({row["id"] for row in read}) == 709
    for row, other in zip(read, written, strict=True):
        for name, value in row.items():
            if isinstance(value, datetime):
                value = f"{value:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
            assert (float(value) if isinstance(value, Decimal) else value) == other[name]


async def test_queries_are_exported_too(ask):
    found = lines(await ask("/traces/cost_by_model.jsonl?days=36500"))
    assert {row["model"] for row in found} >= {"a", "b"}
    query = "select model, count(*) as calls from usage group by 1 order by 1"
    for read, suffix in ((lines, ".jsonl"), (table, ".parquet")):
        assert read(await ask(sql(query, suffix))) == [
            {"model": None, "calls": 1},
            {"model": "a", "calls": 4},
            {"model": "b", "calls": 4},
        ]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
async def test_a_download_has_only_what_is_ours(client, ann, cid, kind):
    record(ann.path, OURS)
    record(cid.path, THEIRS)
    read, headers = (lines, ann.bearer) if kind == "jsonl" else (table, ann.cookie)
    answer = await client.get(f"/traces/usage_log.{kind}", headers=headers)
    assert {row["slug"] for row in read(answer)} == {OURS}
    answer = await client.get(f"/traces/usage.{kind}")
    assert answer.status_code == 401


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
async def test_an_invalid_request_is_an_error_in_json(ask, kind):
    answer = await ask(sql("select nothing from nowhere", f".{kind}"), 400)
    assert answer.json()["error"]
    await ask(f"/traces/usage.{kind}?_sort=nothing", 400)
    await ask(f"/traces/nowhere.{kind}", 404)
    await ask(f"/traces.{kind}", 400)


async def test_head_of_a_download_starts_no_process(client, calls, monkeypatch):
    monkeypatch.setattr(conversion._Converter, "start", None)
    answer = await client.head("/traces/usage.parquet", headers=calls.cookie)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert "x-taximeter-columns" not in answer.headers
    assert answer.content == b""


async def test_pages_link_to_downloads_of_the_whole_list(ask):
    page = await ask("/traces/usage?model=a&_size=2&_facet=outcome")
    assert 'href="/traces/usage.jsonl?model=a"' in page.text
    assert 'href="/traces/usage.parquet?model=a"' in page.text
    page = await ask(f"/traces?sql={quote('select 1 as one')}")
    assert 'href="/traces.parquet?sql=select+1+as+one"' in page.text


async def test_without_pyarrow_there_is_an_error_that_says_so(ask, monkeypatch):
    monkeypatch.setattr(conversion, "find_spec", lambda _name: None)
    answer = await ask("/traces/usage.parquet", 404)
    assert "pyarrow is not installed" in answer.json()["error"]["message"]


async def test_a_value_that_does_not_fit_its_column_cuts_the_download():
    sent: list[dict[str, object]] = []
    async with conversion.to_parquet(_note(sent), is_head=False) as send:
        await send(_start([("n", "integer")]))
        with pytest.raises(CutError):
            await send({"type": "http.response.body", "body": b'["x"]\n', "more_body": False})
    assert not any(message.get("more_body") is False for message in sent[1:])


async def test_a_download_that_is_cut_ends_its_process(monkeypatch):
    sent: list[dict[str, object]] = []
    started = []
    start = asyncio.create_subprocess_exec

    async def note(*arguments, **options):
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", note)
    async with conversion.to_parquet(_note(sent), is_head=False) as send:
        await send(_start([("n", "integer")]))
        await send({"type": "http.response.body", "body": b"[1]\n", "more_body": True})
    assert started[0].returncode == -9
    assert all(message.get("more_body", True) for message in sent)


async def test_a_removed_member_gets_no_more_of_a_download(
    client, ann, control, monkeypatch, caplog
):
    ann.record(*({} for _ in range(700)))
    monkeypatch.setattr(query_module, "RECHECK_S", 0)
    checks = 0
    find = Visitors.require_caller

    async def leave_later(visitors, request):
        nonlocal checks
        checks += 1
        if checks == 3:  # after the head and the first page of rows
            SignIn(control).sign_out(ann.session)
        return await find(visitors, request)

    monkeypatch.setattr(Visitors, "require_caller", leave_later)
    with pytest.raises(AssertionError):  # httpx, of a response without an end
        await client.get("/traces/usage.jsonl", headers=ann.cookie)
    assert checks == 3
    assert "its caller may no longer read" in caplog.text


def _note(messages):
    async def send(message):
        messages.append(message)

    return send


def _start(columns):
    headers = [
        (b"content-type", b"application/x-ndjson"),
        (b"x-taximeter-columns", json.dumps(columns).encode()),
    ]
    return {"type": "http.response.start", "status": 200, "headers": headers}


@pytest.fixture
def ask_csv(client, ann):
    async def ask(path):
        answer = await client.get(path, headers=ann.cookie)
        assert answer.status_code == 200, answer.text
        return list(csv.reader(io.StringIO(answer.text, newline="")))

    return ask


@pytest.mark.parametrize("stream", ["", "&_stream=1&_size=2", "&_labels=on"])
async def test_what_a_spreadsheet_would_execute_is_text(ask_csv, ann, stream):
    ann.record(*({"slug": text, "model": "plain"} for text in FORMULAS))
    path = f"/traces/usage.csv?_col=slug&_col=model&_sort=id{stream}"
    _, *rows = await ask_csv(path)
    wanted = [[f"'{text}", "plain"] for text in FORMULAS]
    assert [row[1:] for row in rows] == wanted
    _, *raw = await ask_csv(f"{path}&_raw=1")
    assert [row[1] for row in raw] == list(FORMULAS)


async def test_numbers_stay_numbers(ask_csv, ann):
    ann.record()
    query = "select -1 as a, -1.5 as b, '-7' as c, '+1e3' as d, '-' as e, null as f"
    heading, row = await ask_csv(f"/traces.csv?sql={quote(query)}")
    assert heading == ["a", "b", "c", "d", "e", "f"]
    assert row == ["-1", "-1.5", "-7", "+1e3", "'-", ""]


async def test_queries_bodies_and_headings_are_neutralised_too(ask_csv, ann):
    ann.record(response_body=b"=1+1", request_body=b"\xff\x00", session_id="=2+2", cost_cents=5)
    heading, row = await ask_csv(f"/traces.csv?sql={quote('select 1 as [=3+3]')}")
    assert (heading, row) == (["'=3+3"], ["1"])
    heading, row = await ask_csv("/traces/usage_log.csv")
    cells = dict(zip(heading, row, strict=True))
    assert cells["response_body"] == "'=1+1"
    assert cells["request_body"].startswith("http"), "where the bytes can be downloaded"
    _, row = await ask_csv("/traces/cost_by_session.csv?days=9999")
    assert row[0] == "'=2+2"
