"""The totals of a filtered list of calls, and its sums by a column."""

import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from html import unescape
from itertools import product

import pytest

from dashboard.tables import sums
from metering.formats import format_cents
from tests.dashboard.pages import words_of

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture
def ann(ann):
    ann.record(
        *(
            {
                "model": None if n % 5 == 0 else f"m{n % 3}",
                "slug": f"slug-{n % 2}",
                "cost_cents": Decimal(n),
                "cache_read_input_tokens": 1000 + n,
            }
            for n in range(40)
        ),
        {"slug": "other", "cost_cents": Decimal(700), "billing": "subscription"},
        {"slug": "other", "cost_cents": Decimal(5), "estimated_cents": Decimal(3)},
        {"slug": "other", "cost_cents": None},
    )
    return ann


@pytest.fixture
def ask(client, ann):
    async def ask(path, status=200):
        answer = await client.get(unescape(path), headers=ann.cookie)
        assert answer.status_code == status, answer.text
        return answer.text

    return ask


def find_totals(page):
    found = re.findall(r'<p class="totals">(.*?)</p>', page, re.S)
    return words_of("".join(found))


def find_rows(page):
    """The lines of the sums: what they are of with its link, calls and cost."""
    section = page.partition('<section class="sums"')[2].partition("</section>")[0]
    return re.findall(
        r'<th scope="row"><a href="([^"]+)">.*?<bdi>(.*?)</bdi>.*?<td class="num">([\d,]+)</td>'
        r'<td class="num">([^\s<]+)',
        section,
    )


async def test_a_filtered_list_shows_the_totals_of_all_its_pages(ask, ann):
    page = await ask("/traces/usage?slug=slug-1&_size=4")
    with closing(sqlite3.connect(ann.path)) as connection:
        calls, cents, read, prompt = connection.execute(
            "select count(*), sum(cost_cents), sum(cache_read_input_tokens),"
            " sum(cache_read_input_tokens + input_tokens + cache_creation_input_tokens)"
            " from usage where slug = 'slug-1'"
        ).fetchone()
    assert (
        find_totals(page)
        == f"{calls} calls, {format_cents(cents)}, {100 * read / prompt:.0f} % cached"
    )
    following = re.search(r'href="([^"]+)" rel="next"', page)
    assert following
    assert find_totals(await ask(following[1])) == find_totals(page)


async def test_what_is_estimated_covered_or_without_a_price_is_said(ask):
    totals = find_totals(await ask("/traces/usage?slug=other"))
    for words in ("3 calls, $7.05 + 1 unpriced", "$0.0300 estimated", "$7.00 covered"):
        assert words in totals


async def test_the_list_of_all_calls_is_not_added_up_for_each_page(ask):
    assert find_totals(await ask("/traces/usage")) == ""


async def test_more_calls_than_are_added_up_are_not_shown_as_all(ask, monkeypatch):
    monkeypatch.setattr(sums, "MAX_ROWS", 3)
    totals = find_totals(await ask("/traces/usage?slug=slug-1"))
    assert totals.startswith("The newest 3 calls, $1.11,")
    assert "Older ones are not added up here" in totals


async def test_totals_that_take_too_long_are_left_out(ask, monkeypatch):
    monkeypatch.setattr(sums, "TOTALS_TIME_MS", 1)
    monkeypatch.setattr(sums, "_SUMS", sums._SUMS | {"slow": SLOW})
    page = await ask("/traces/usage?slug=slug-1")
    assert find_totals(page) == ""
    assert "20 calls" in page


SLOW = (
    "(with recursive n(i) as (select 1 union all select i + 1 from n limit 3000000)"
    " select count(*) from n)"
)


async def test_sums_that_take_too_long_say_so(ask, monkeypatch):
    monkeypatch.setattr(sums, "GROUPS_TIME_MS", 1)
    monkeypatch.setattr(sums, "_SUMS", sums._SUMS | {"slow": SLOW})
    assert "Adding up took too long for model" in await ask("/traces/usage?_sum_by=model")


CONDITIONS = {
    "": "true",
    "&slug=slug-1": "slug = 'slug-1'",
    "&slug__in=slug-0,other": "slug <> 'slug-1'",
}


async def test_a_list_is_summed_by_a_column_and_each_value_leads_to_its_calls(ask, ann, subtests):
    for column, query in product(("model", "slug", "session_id"), CONDITIONS):
        with subtests.test(column, query=query):
            await check_sums(ask, ann, column, query)


async def check_sums(ask, ann, column, query):
    where = CONDITIONS[query]
    rows = find_rows(await ask(f"/traces/usage?_sum_by={column}{query}"))
    with closing(sqlite3.connect(ann.path)) as connection:
        expected = connection.execute(
            f"select {column}, count(*), total(cost_cents) from usage where {where}"  # noqa: S608
            " group by 1 order by 3 desc, 2 desc, 1"
        ).fetchall()
    assert [(name, calls, cost) for _, name, calls, cost in rows] == [
        (name or "not set", f"{calls}", format_cents(cost)) for name, calls, cost in expected
    ]
    for address, _, calls, cost in rows:
        if address != f"/traces/usage?_sum_by={column}":  # else the condition was taken away
            assert find_totals(await ask(address)).startswith(
                f"{calls} call{'s' if calls != '1' else ''}, {cost}"
            )


async def test_a_value_that_is_a_condition_can_be_taken_away(ask):
    ((address, name, calls, _),) = find_rows(await ask("/traces/usage?_sum_by=slug&slug=slug-1"))
    assert (name, calls) == ("slug-1", "20")
    assert address == "/traces/usage?_sum_by=slug"


async def test_the_list_leads_to_its_sums_and_back(ask):
    page = await ask("/traces/usage?slug=slug-1&_size=5")
    page = await ask(re.findall(r'href="([^"]+)" rel="next"', page)[0])
    (by_model,) = re.findall(r'href="([^"]*_sum_by=model)"', page)
    page = await ask(by_model)
    assert "_next" not in by_model
    (back,) = re.findall(r'class="dismiss" href="([^"]+)"', page)
    assert unescape(back) == "/traces/usage?slug=slug-1&_size=5&_sort_desc=created_at"


async def test_programs_do_not_wait_for_sums(ask, monkeypatch):
    monkeypatch.setattr(sums, "_read_totals", None)
    assert '"rows"' in await ask("/traces/usage.json?slug=slug-1&_sum_by=model")


async def test_a_column_that_is_none_is_refused(ask):
    assert "has to be the name of a column" in await ask("/traces/usage?_sum_by=1)--", 400)
