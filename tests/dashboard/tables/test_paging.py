"""Pages of tables: every row is on one of them, forwards and backwards, whatever it is sorted by."""

import re
from itertools import pairwise

import pytest

from dashboard.tables.paging import Order, Place, write_condition
from dashboard.tables.trace_file import TraceFile
from store.traces.database import TraceDatabase
from tests.dashboard.pages import Page

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
CALLS = 23


@pytest.fixture
def ann(ann):
    """Inserted in another order than they arrived, with equal times, costs and no cost at all."""
    ann.record(
        *(
            {
                "created_at": f"2026-01-02T03:04:{(n * 7) % 10:02d}.000Z",
                "cost_cents": None if n % 3 == 0 else n % 5,
                "cost_items": (),
                "model": None if n % 4 == 0 else f"model-{n % 2}",
                "slug": f"slug-{n % 2}",
            }
            for n in range(CALLS)
        )
    )
    return ann


@pytest.fixture
def ask(client, ann):
    async def ask(path, status=200):
        answer = await client.get(path, headers=ann.cookie)
        assert answer.status_code == status, answer.text
        return answer.json() if ".json" in path else answer

    return ask


async def walk(ask, path, to, passed=None):
    """The rows of each page on the way along links of one kind. The addresses go to ``passed``."""
    pages = []
    while path:
        if passed is not None:
            passed.append(path)
        page = await ask(path)
        pages.append([tuple(row) for row in page["rows"]])
        assert len(pages) < 50
        path = page[to]
    return pages


SORTS = ("", *(f"_sort{way}={column}" for way in ("", "_desc") for column in (
    "id", "created_at", "cost_cents", "model", "slug", "entry_id"
)))  # fmt: skip


@pytest.mark.slow
async def test_every_row_is_on_one_page_in_both_directions(ask, subtests):
    for sort in SORTS:
        with subtests.test(sort):
            query = f"_col=slug&_size=6&{sort}"
            passed: list[str] = []
            forwards = await walk(ask, f"/traces/usage.json?{query}", "next_url", passed)
            ids = [row[0] for page in forwards for row in page]
            assert sorted(ids) == list(range(1, CALLS + 1))
            assert [len(page) for page in forwards] == [6, 6, 6, 5]
            whole = await ask(f"/traces/usage.json?{query.replace('_size=6', '_size=200')}")
            assert [row[0] for row in whole["rows"]] == ids, "a larger page has the same order"
            backwards = await walk(ask, passed[-1], "previous_url")
            assert backwards[::-1] == forwards


async def test_calls_are_listed_by_arrival(ask):
    rows = await ask("/traces/usage.json?_shape=array&_size=50")
    places = [(row["created_at"], row["id"]) for row in rows]
    assert all(newer > older for newer, older in pairwise(places))
    assert [row["id"] for row in rows] != sorted((row["id"] for row in rows), reverse=True)


async def test_the_page_before_a_row_that_is_near_the_beginning_is_the_first(ask):
    first = await ask("/traces/usage.json?_size=4")
    second = await ask(first["next_url"])
    wider = await ask(second["previous_url"].replace("_size=4", "_size=10"))
    assert wider["previous_url"] is None
    assert wider["rows"][:4] == first["rows"]
    assert len(wider["rows"]) == 10


async def test_conditions_facets_and_the_count_are_of_all_pages(ask):
    path = "/traces/usage.json?slug=slug-1&_facet=slug&_size=4&_where=id>2 or id=2"
    first = await ask(path)
    second = await ask(first["next_url"])
    assert second["rows"]
    assert not {row[0] for row in first["rows"]} & {row[0] for row in second["rows"]}
    for page in (first, second):
        assert page["filtered_table_rows_count"] == 11
        (facet,) = page["facet_results"]["slug"]["results"]
        assert facet["count"] == 11


async def test_the_view_with_bodies_has_the_same_pages(ask):
    query = "_nocol=request_body&_size=4"
    forwards = await walk(ask, f"/traces/usage_log.json?{query}", "next_url")
    ids = [row[0] for page in forwards for row in page]
    listed = await ask("/traces/usage.json?_size=200")
    assert ids == [row[0] for row in listed["rows"]]


@pytest.mark.parametrize("table", ["usage_hourly", "usage_cost"])
async def test_tables_with_a_key_of_several_columns_have_pages(ask, ann, table):
    ann.record(*({"created_at": f"2026-01-0{n}T03:04:05.000Z"} for n in range(1, 8)))
    pages = await walk(ask, f"/traces/{table}.json?_size=2", "next_url")
    rows = [row for page in pages for row in page]
    whole = await ask(f"/traces/{table}.json?_size=200")
    assert rows == [tuple(row) for row in whole["rows"]]
    assert len(rows) > 4


async def test_a_view_without_a_key_has_a_previous_page_too(ask, ann):
    with TraceDatabase(ann.path) as traces:
        traces.connection.executemany(
            "insert into rejections values (?, ?, 'pe', 'slug', 'messages', 1)",
            [(str(n), f"2026-01-02T{n:02d}") for n in range(10)],
        )
        traces.connection.commit()
    path = "/traces/rejections_hourly.json?_size=4"
    pages = await walk(ask, path, "next_url")
    assert [len(page) for page in pages] == [4, 4, 2]
    last = (await ask((await ask(path))["next_url"]))["next_url"]
    assert (await walk(ask, last, "previous_url"))[::-1] == pages


async def test_a_page_links_to_those_around_it(ask):
    def links(answer):
        found = {each.attributes.get("rel"): each for each in Page(answer.text).find("a")}
        return {rel: found[rel].attributes["href"] for rel in ("prev", "next") if rel in found}

    first = links(await ask("/traces/usage?_size=10"))
    assert set(first) == {"next"}
    second = links(await ask(first["next"]))
    assert set(second) == {"prev", "next"}
    assert set(links(await ask(second["next"]))) == {"prev"}
    assert set(links(await ask(second["prev"]))) == {"next"}


async def test_a_stream_of_csv_has_every_row_once(ask):
    answer = await ask("/traces/usage.csv?_stream=1&_size=4&_sort=cost_cents&_col=slug")
    ids = [line.partition(",")[0] for line in answer.text.splitlines()[1:]]
    assert sorted(map(int, ids)) == list(range(1, CALLS + 1))


@pytest.mark.parametrize("place", ["x", "a,b,c", "!", "2026-01-02T03:04:05.000Z"])
async def test_a_place_that_nobody_gave_out_is_refused(ask, place):
    answer = await ask(f"/traces/usage.json?_next={place}", 400)
    assert "_next has to be" in answer["error"]


async def test_a_page_in_the_middle_is_found_by_the_index(ask, ann, monkeypatch):
    asked = []
    execute = TraceFile.execute

    async def note(self, sql, params=None, *arguments, **options):
        asked.append((sql, params))
        return await execute(self, sql, params, *arguments, **options)

    monkeypatch.setattr(TraceFile, "execute", note)
    second = (await ask("/traces/usage.json?_size=4"))["next_url"]
    await ask((await ask(second))["previous_url"])
    pages = [(sql, params) for sql, params in asked if re.search(r"order by .* limit 5$", sql)]
    assert len(pages) == 4, "the page before the second is not full, so the first is read"
    with TraceDatabase(ann.path) as traces:
        for sql, params in pages:
            plan = traces.connection.execute(f"explain query plan {sql}", params).fetchall()
            assert "USING INDEX usage_created_at" in plan[0][3], sql
            assert len(plan) == 1, "nothing is sorted"


@pytest.mark.parametrize(
    ("order", "place", "condition"),
    [
        ((("a", "id"), True, False), Place(("1", "2")), "(a, id) < (:place_0, :place_1)"),
        ((("a", "id"), True, False), Place(("1", "2"), True), "(a, id) > (:place_0, :place_1)"),
        ((("a", "id"), True, True), Place(("1", "2")),
         "((a, id) < (:place_0, :place_1) or a is null)"),
        ((("a", "id"), False, True), Place(("1", "2")), "(a, id) > (:place_0, :place_1)"),
        ((("a", "id"), True, True), Place((None, "2")), "(a is null and (id) < (:place_1))"),
        ((("a", "id"), False, True), Place((None, "2")),
         "(a is not null or (a is null and (id) > (:place_1)))"),
    ],
)  # fmt: skip
def test_what_comes_behind_a_place(order, place, condition):
    keys, descending, nullable = order
    made = Order(keys=keys, is_sorted=True, descending=descending, nullable=nullable)
    assert write_condition(made, place)[0] == condition
