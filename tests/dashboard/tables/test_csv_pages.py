"""CSV of the trace browser: no cell of it is a formula, unless somebody asks for what is stored."""

import csv
from io import StringIO
from urllib.parse import quote

import pytest

FORMULAS = ("=cmd|'/c calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\tx", "\rx")

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


@pytest.fixture
def ask(client, ann):
    async def ask(path):
        answer = await client.get(path, headers=ann.cookie)
        assert answer.status_code == 200, answer.text
        return list(csv.reader(StringIO(answer.text, newline="")))

    return ask


@pytest.mark.parametrize("stream", ["", "&_stream=1&_size=2", "&_labels=on"])
async def test_what_a_spreadsheet_would_execute_is_text(ask, ann, stream):
    ann.record(*({"slug": text, "model": "plain"} for text in FORMULAS))
    path = f"/traces/usage.csv?_col=slug&_col=model&_sort=id{stream}"
    _, *rows = await ask(path)
    wanted = [[f"'{text}", "plain"] for text in FORMULAS]
    assert [row[1:] for row in rows] == wanted
    _, *raw = await ask(f"{path}&_raw=1")
    assert [row[1] for row in raw] == list(FORMULAS)


async def test_numbers_stay_numbers(ask, ann):
    ann.record()
    query = "select -1 as a, -1.5 as b, '-7' as c, '+1e3' as d, '-' as e, null as f"
    heading, row = await ask(f"/traces.csv?sql={quote(query)}")
    assert heading == ["a", "b", "c", "d", "e", "f"]
    assert row == ["-1", "-1.5", "-7", "+1e3", "'-", ""]


async def test_queries_bodies_and_headings_are_neutralised_too(ask, ann):
    ann.record(response_body=b"=1+1", request_body=b"\xff\x00", session_id="=2+2", cost_cents=5)
    heading, row = await ask(f"/traces.csv?sql={quote('select 1 as [=3+3]')}")
    assert (heading, row) == (["'=3+3"], ["1"])
    heading, row = await ask("/traces/usage_log.csv")
    cells = dict(zip(heading, row, strict=True))
    assert cells["response_body"] == "'=1+1"
    assert cells["request_body"].startswith("http"), "where the bytes can be downloaded"
    _, row = await ask("/traces/cost_by_session.csv?days=9999")
    assert row[0] == "'=2+2"
