"""The looks of every page, ours and Datasette's, and of the list of calls."""

import json
import re
from decimal import Decimal
from itertools import product

import pytest

from dashboard.tables.lean_datasette import Datasette
from dashboard.tables.metadata import METADATA_PATH
from dashboard.tables.trace_file import TraceFile
from store.traces.database import TraceDatabase
from tests import ROOT
from tests.dashboard.pages import Page
from tests.dashboard.people import BASE_URL
from tests.store.traffic import make_entry, make_item

STATIC = ROOT / "dashboard" / "static"
METADATA = json.loads(METADATA_PATH.read_text())["databases"]["traces"]
MARKUP = "<img src=x onerror=alert(1)>"

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture
def ask(client, ann):
    async def ask(path, status=200):
        cookie = {} if path == "/sign-in" else ann.cookie
        answer = await client.get(path, headers=cookie)
        assert answer.status_code == status, answer.text
        return Page(answer.text)

    return ask


async def test_the_icon_is_where_browsers_look_for_it(client):
    answer = await client.get("/favicon.ico")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/x-icon"
    assert answer.content[:4] == b"\0\0\1\0"


# -- every page --------------------------------------------------------------------------------------

OURS = [
    "/",
    "/?measure=tokens&by=kind",
    "/?measure=time&by=endpoint",
    "/?measure=session",
    "/sessions",
    "/sign-in",
    "/settings/endpoints",
    "/settings/people",
    "/calls/1",
    "/traces/usage/2/request/read",
    "/help/costs",
]
DATASETTES = [
    "/traces",
    "/traces?_show_hidden=1",
    "/traces/usage",
    "/traces/usage?_col=slug",
    "/traces/usage?model=claude-sonnet-4-5&_facet=outcome&_sort=cost_cents",
    "/traces/usage?slug=nowhere",
    "/traces/usage_log",
    "/traces/usage_hourly",
    "/traces/usage_cost",
    "/traces/usage_cost/1,0",
    "/traces/cost_by_day_and_model",
    "/traces/read_body",
    "/traces?sql=select+:a",
    "/traces?sql=select+1&_hide_sql=1",
]
PROBLEMS = [("/traces?sql=select+nonsense", 400), ("/traces/nowhere", 404)]


async def test_every_page_is_whole(client, ann, ask, subtests):
    ann.record({}, {"request_body": b'{"a": 1}', "response_body": b"b"})
    loaded: set[str] = set()
    for path, status in [*((path, 200) for path in [*OURS, *DATASETTES]), *PROBLEMS]:
        with subtests.test(path):
            page = await ask(path, status)
            assert_whole(page)
            loaded |= {
                sheet.attributes["href"]
                for sheet in page.find("link")
                if sheet.attributes["rel"] in ("stylesheet", "icon")
            }
    for address in loaded:
        assert (await client.get(address)).status_code == 200, address


def assert_whole(page):
    assert page.find("html")[0].attributes["lang"] == "en"
    assert re.fullmatch(r"\S.* · Taximeter", page.find("title")[0].text)
    assert len(page.find("h1")) == 1
    assert page.find("h1")[0].text
    assert len(page.find("main")) == len(page.find("header", "top")) == 1
    skip = page.find("a", "skip")[0]
    assert page.find("a")[0] is skip, "the first stop of the Tab key"
    assert skip.attributes["href"] == f"#{page.find('main')[0].attributes['id']}"
    assert not page.unnamed_controls()
    assert not page.doubled_ids()
    for script in page.find("script"):
        assert script.attributes["src"].startswith(("/static/", "/-/static/"))
        assert not script.text
    assert not page.find("style")
    for element in page.elements:
        assert "style" not in element.attributes, element
        assert not [name for name in element.attributes if name.startswith("on")], element


PLACES = [
    ("/", 200, {"/": "page"}),
    ("/calls", 200, {"/calls": "page"}),
    ("/calls/1", 200, {"/calls": "true"}),
    ("/traces/usage", 200, {"/traces": "true"}),
    ("/traces", 200, {"/traces": "page"}),
    ("/traces/usage_hourly", 200, {"/traces": "true"}),
    ("/traces/nowhere", 404, {"/traces": "true"}),
]


async def test_the_navigation_says_where_one_is(ann, ask, subtests):
    ann.record()
    for path, status, here in PLACES:
        with subtests.test(path):
            check_navigation(await ask(path, status), here)


def check_navigation(page, here):
    links = [
        each
        for each in page.find("a")
        if any(p.has_class("top") for p in each.parents) and each.is_within("nav")
    ]
    assert [each.attributes["href"] for each in links] == [
        "/",
        "/sessions",
        "/calls",
        "/savings",
        "/traces",
        "/settings",
    ]
    marked = {
        each.attributes["href"]: each.attributes["aria-current"]
        for each in links
        if "aria-current" in each.attributes
    }
    assert marked == here
    forms = [each for each in page.find("form") if each.attributes.get("method") == "post"]
    assert [
        each.attributes["action"] for each in forms if any(p.has_class("top") for p in each.parents)
    ] == ["/sign-out"]


async def test_pages_say_who_is_signed_in_unless_an_error_does_not_know(ann, ask):
    ann.record()
    for path in ("/", "/traces", "/traces/usage"):
        assert "ann@example.org" in (await ask(path)).find("header", "top")[0].text


async def test_the_signed_out_see_no_navigation(client):
    page = Page((await client.get("/sign-in")).text)
    assert not page.find("nav")
    assert "Sign out" not in page.find("header", "top")[0].text


async def test_signing_out_works_from_the_tables(client, ann):
    ann.record()
    answer = await client.post("/sign-out", headers={**ann.cookie, "origin": BASE_URL})
    assert answer.headers["location"] == "/sign-in"
    assert (await client.get("/traces/usage", headers=ann.cookie)).status_code == 303


async def test_a_query_that_takes_too_long_is_told_so_without_a_script(client, ann):
    ann.record()
    endless = "with recursive n(i) as (select 1 union all select i+1 from n) select max(i) from n"
    answer = await client.get(
        "/traces", params={"sql": endless, "_timelimit": "20"}, headers=ann.cookie
    )
    assert answer.status_code == 400
    page = Page(answer.text)
    assert page.find("h1")[0].text == "Query timed out"
    assert all(script.attributes.get("src") for script in page.find("script"))


# -- the list of traces ------------------------------------------------------------------------------


def rows(page):
    """Texts of the cells by their class."""
    table = page.find("table", "calls")[0]
    found = []
    for row in page.find("tr"):
        cells = [each for each in page.find("td") if row in each.parents]
        if cells and table in row.parents:
            found.append({each.attributes["class"].split()[-1]: each for each in cells})
    return found


async def test_a_call_is_readable_at_a_glance(ann, ask):
    ann.record(
        {
            "created_at": "2026-01-02T03:04:05.678Z",
            "input_tokens": 2_000,
            "cache_creation_input_tokens": 8_000,
            "cache_read_input_tokens": 90_000,
            "output_tokens": 1_234,
            "cost_cents": Decimal("1.234"),
            "duration_ms": 94_000,
        },
    )
    page = await ask("/traces/usage")
    (row,) = rows(page)
    assert {name: cell.text for name, cell in row.items()} == {
        "time": "Call of 2026-01-02 03:04:05",
        "slug": "default",
        "model": "claude-sonnet-4-5",
        "input": "In 100k, 90 % cached",
        "output": "Out 1,234",
        "cost": "$0.0123",
        "duration": "1 min 34 s",
        "outcome": "complete",
    }
    assert page.find("time")[0].attributes["datetime"] == "2026-01-02T03:04:05.678Z"
    links = [each for each in page.find("a") if row["time"] in each.parents]
    assert [each.attributes["href"] for each in links] == ["/calls/1"]


async def test_a_call_is_listed_with_what_was_asked_last(ann, ask):
    ann.record({"title_text": "Mend the\u202e test"}, {})
    titles = (await ask("/traces/usage")).find("span", "title")
    assert [each.text for each in titles] == ["Mend the⟨U+202E⟩ test"]


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({"usage_source": "none"}, "The cost is not known: the response has no token counts."),
        ({"usage_source": "final"}, "The price of this model is not known yet."),
    ],
)
async def test_an_unknown_cost_says_why(ann, ask, changes, title):
    ann.record({"cost_cents": None, "cost_items": (), **changes})
    page = await ask("/traces/usage")
    (row,) = rows(page)
    assert row["cost"].text == "— cost unknown"
    (reason,) = [each for each in page.find("span", "soft") if row["cost"] in each.parents]
    assert reason.attributes["title"].startswith(title)


async def test_a_call_of_which_nothing_is_known_is_listed_too(ann, ask):
    nothing = dict.fromkeys(
        (
            "model",
            "input_tokens",
            "output_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "cost_cents",
            "duration_ms",
            "status_code",
        )
    )
    ann.record(nothing | {"cost_items": (), "outcome": "upstream_unreachable"})
    (row,) = rows(await ask("/traces/usage"))
    assert [row[name].text for name in ("model", "input", "output", "duration", "outcome")] == [
        "—",
        "In —",
        "Out —",
        "—",
        "unreachable",
    ]


async def test_errors_show_their_status(ann, ask):
    ann.record(
        {"outcome": "upstream_error", "status_code": 529, "error_type": "overloaded_error"},
        {"outcome": "client_disconnected"},
    )
    page = await ask("/traces/usage")
    assert [row["outcome"].text for row in rows(page)] == ["cut by the client", "error 529"]
    assert [each.attributes["class"] for each in page.find("span", "mark")] == [
        "mark cut",
        "mark bad",
    ]


async def test_calls_come_first_among_the_tables(ann, ask):
    ann.record({})
    page = await ask("/traces")
    names = [each.text for each in page.find("code", "soft")]
    assert names[:4] == ["usage", "usage_log", "usage_cost", "usage_hourly"]
    assert len(names) == len(set(names)) >= 8


async def test_a_refusal_has_a_mark_of_its_own_and_a_link_to_all_of_them(ann, ask):
    ann.record({"stop_reason": "refusal", "refusal_category": "cyber"}, {"stop_reason": "end_turn"})
    page = await ask("/traces/usage")
    assert [row["outcome"].text for row in rows(page)] == ["complete", "refused"]
    marks = page.find("span", "mark")
    assert [each.attributes["class"] for each in marks] == ["mark ok", "mark refused"]
    assert marks[1].attributes["title"] == "The model declined to respond, category cyber."
    (link,) = [each for each in page.find("a") if each.text == "Refused calls"]
    refused = await ask(link.attributes["href"])
    assert [row["outcome"].text for row in rows(refused)] == ["refused"]


async def test_markup_in_what_clients_send_is_shown_as_text(client, ann):
    ann.record(
        {
            "slug": MARKUP,
            "model": MARKUP,
            "request_model": MARKUP,
            "session_id": MARKUP,
            "client": MARKUP,
            "error_type": f'"{MARKUP}',
            "outcome": "upstream_error",
            "cost_items": (make_item(model=MARKUP),),
        },
        {"model": None, "request_model": MARKUP},
    )
    facets = "&".join(f"_facet={name}" for name in ("slug", "model", "session_id", "error_type"))
    for path in (
        "/traces/usage",
        f"/traces/usage?{facets}",
        f"/traces/usage?slug={MARKUP}&_where=slug='{MARKUP}'",
        "/traces/usage?_nocol=entry_id",
        "/traces/usage_log",
        "/traces/usage_hourly",
        "/traces/usage_cost",
        "/traces/usage_cost/1,0",
        "/traces/cost_by_session?days=9999",
        "/traces/errors_by_type?days=9999",
        f"/traces?sql=select '{MARKUP}' as \"{MARKUP}\"",
        f"/traces/cost_by_session?days={MARKUP}",
    ):
        answer = await client.get(path, headers=ann.cookie)
        assert answer.status_code == (400 if "days=<" in path else 200), path
        page = Page(answer.text)
        assert not page.find("img"), path
        assert MARKUP in " ".join(each.text for each in page.find("main")), path
        for element in page.elements:
            assert not [name for name in element.attributes if name.startswith("on")], element


@pytest.mark.parametrize("query", ["_col=slug", "_nocol=slug"])
async def test_whoever_asks_for_columns_gets_them_as_they_are(ann, ask, query):
    ann.record()
    page = await ask(f"/traces/usage?{query}")
    assert not page.find("table", "calls")
    names = [each.attributes["data-column"] for each in page.find("th")]
    assert names == (["id", "slug"] if query == "_col=slug" else _without("slug"))


def _without(column):
    return [name for name in METADATA["tables"]["usage"]["columns"] if name != column]


async def test_sorting_pages_and_exports_stay(ann, ask):
    ann.record(*({"slug": f"slug-{n}", "cost_cents": n} for n in range(5)))
    page = await ask("/traces/usage?_size=2&_sort_desc=cost_cents")
    assert [row["slug"].text for row in rows(page)] == ["slug-4", "slug-3"]
    (sorted_by,) = [each for each in page.find("th") if "aria-sort" in each.attributes]
    assert sorted_by.text == "Cost ↓"
    assert sorted_by.attributes["aria-sort"] == "descending"
    (following,) = [each for each in page.find("a") if each.attributes.get("rel") == "next"]
    page = await ask(following.attributes["href"])
    assert [row["slug"].text for row in rows(page)] == ["slug-2", "slug-1"]
    targets = [each.attributes["href"] for each in page.find("a")]
    assert any("usage.json" in target for target in targets)
    assert any("usage.csv" in target for target in targets)


async def test_more_rows_take_no_more_questions(ann, ask, monkeypatch):
    ann.record()
    await ask("/traces/usage")
    asked = []
    execute = TraceFile.execute

    async def count(self, sql, *arguments, **options):
        asked.append(sql)
        return await execute(self, sql, *arguments, **options)

    monkeypatch.setattr(TraceFile, "execute", count)
    await ask("/traces/usage")
    few = len(asked)
    asked.clear()
    ann.record(*({} for _ in range(40)))
    await ask("/traces/usage")
    assert len(asked) == few
    assert sum("count(*)" in sql for sql in asked) == 1
    assert not any("group by" in sql for sql in asked), "facets wait to be asked for"


async def test_the_answers_lead_to_their_calls(ann, ask):
    ann.record({"ttfb_ms": 10}, {"ttfb_ms": 20})
    page = await ask("/traces/slowest_first_bytes?days=9999")
    links = [each.attributes["href"] for each in page.find("a") if each.is_within("td")]
    assert links == ["/calls/2", "/calls/1"]


async def test_questions_come_before_tables(ann, ask):
    ann.record()
    page = await ask("/traces")
    assert [each.text for each in page.find("h2")] == [
        "Queries",
        "Tables",
        "SQL query",
    ]
    text = page.find("main")[0].text
    for query in METADATA["queries"].values():
        assert query["description"] in text
    for table in METADATA["tables"].values():
        assert table.get("hidden") or table["description"] in text


# -- colours -----------------------------------------------------------------------------------------


def colors(scheme):
    """The style sheet's colours in one scheme."""
    text = (STATIC / "style.css").read_text()
    found = dict(re.findall(r"--(\w[\w-]*): (#[0-9a-f]{6});", text))
    for name, light, dark in re.findall(
        r"--(\w[\w-]*): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", text
    ):
        found[name] = light if scheme == "light" else dark
    return found


def luminance(color):
    parts = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_every_surface(scheme):
    named = colors(scheme)
    texts = ("text", "soft", "link", "ok", "cut", "bad")
    for text, surface in product(texts, ("paper", "card", "panel", "bad-tint", "cut-tint")):
        assert contrast(named[text], named[surface]) >= 4.5, (text, surface)
    for text, surface in (("cab", "taxi"), ("cab-text", "cab"), ("cab-soft", "cab")):
        assert contrast(named[text], named[surface]) >= 4.5, (text, surface)
    for surface in ("paper", "card", "panel"):
        assert contrast(named["edge"], named[surface]) >= 3, surface


# -- the metadata file -------------------------------------------------------------------------------


def test_times_are_shown_as_they_are_stored():
    """The script changes titles only: what is read on a page is UTC for everybody."""
    script = (STATIC / "time.js").read_text()
    assert "textContent" not in script
    assert "innerText" not in script
    assert "element.title = " in script


def test_the_metadata_has_no_markup():
    assert "_html" not in METADATA_PATH.read_text()
    assert not re.search(r"<\s*/?\w+[^>]*>", json.dumps(METADATA["tables"]))


@pytest.fixture
async def plain(tmp_path):
    """Return what `datasette traces.db --metadata datasette-metadata.json` serves an analyst."""
    path = tmp_path / "traces.db"
    with TraceDatabase(path) as traces:
        traces.insert(
            [
                make_entry(request_body=BODIES["long"], response_body=BODIES["short"]),
                make_entry(request_body=BODIES["bytes"], response_body=None),
            ]
        )
    datasette = Datasette(
        [str(path)],
        metadata=json.loads(METADATA_PATH.read_text()),
        settings={
            "num_sql_threads": 0,  # so that every connection can be closed here
            "sql_time_limit_ms": 10_000,  # a busy machine is no mistake
        },
    )
    yield datasette
    for database in datasette.databases.values():
        for connection in (database._read_connection, database._write_connection):
            if connection is not None:
                connection.close()


BODIES = {
    "long": "".join(f"{number} “ü” 😀 \r\n" for number in range(40_000)).encode(),
    "short": b"data: <b>x</b>",
    "bytes": bytes(range(256)) * 20,
}


async def read_body(plain, **options):
    answer = await plain.client.get("/traces/read_body.json", params={"_shape": "array", **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_plain_datasette_reads_whole_bodies(plain):
    pieces = await read_body(plain, id=1)
    assert [each["piece"] for each in pieces] == list(range(1, len(pieces) + 1))
    assert max(len(each["text"]) for each in pieces) == 2000
    assert "".join(each["text"] for each in pieces).encode() == BODIES["long"]
    assert (await read_body(plain, id=1, which="response")) == [
        {"piece": 1, "text": BODIES["short"].decode()}
    ]
    blob = await read_body(plain)
    assert bytes.fromhex("".join(each["text"] for each in blob)) == BODIES["bytes"]
    assert await read_body(plain, id=2, which="response") == []


@pytest.mark.slow
async def test_a_long_body_can_be_read_on_from_any_piece(plain):
    whole = await read_body(plain, id=1)
    for start in (1, 2, 99, 100, 101, 150, 10_000):
        assert await read_body(plain, id=1, from_piece=start) == whole[start - 1 :], start


async def test_plain_datasette_does_not_cut_the_pieces_on_its_page(plain):
    page = await plain.client.get("/traces/read_body?id=1")
    cells = [each.text for each in Page(page.text).find("td", "col-text")]
    assert len(cells) > 100
    assert not any(cell.endswith("…") for cell in cells)


async def test_bodies_that_are_no_text_can_be_fetched_from_the_list(client, ann, ask):
    ann.record({"request_body": BODIES["bytes"], "response_body": BODIES["short"]})
    page = await ask("/traces/usage_log")
    (link,) = page.find("a", "blob-download")
    answer = await client.get(link.attributes["href"], headers=ann.cookie)
    assert answer.content == BODIES["bytes"]


# Of these the first is a view with a BLOB in it, which is more than Datasette 0.65 can show on a page by
# itself. Full-text tables have no texts that could be listed; they are for queries with ``match``.
NO_PAGES = {"usage_log", "search_text", "search_response"}


@pytest.mark.slow
async def test_plain_datasette_shows_every_page(plain):
    """All but those of queries and described tables, which ``tables/test_datasette.py`` has."""
    tables = METADATA["tables"].items()
    for path in (
        "/",
        "/traces",
        "/traces/usage_log?_nocol=request_body",
        "/traces/usage_log?id=1",
        *(
            f"/traces/{name}"
            for name, about in tables
            if not {"columns"} & set(about) and name not in NO_PAGES
        ),
        "/traces/usage/1",
        "/traces/usage_cost/1,0",
    ):
        assert (await plain.client.get(path)).status_code == 200, path


def test_costs_are_in_dollars_where_people_compare_them():
    for name in ("cost_by_day_and_model", "cost_by_endpoint", "cost_by_session"):
        assert "/ 100, 4) as cost_usd" in METADATA["queries"][name]["sql"]
