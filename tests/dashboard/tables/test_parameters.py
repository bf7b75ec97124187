"""Parameters of canned queries, and arguments that would otherwise be ignored."""

import html
import itertools
import json
import re

import pytest

from dashboard.tables.metadata import METADATA_PATH
from dashboard.tables.parameters import InvalidParameterError, complete
from tests.dashboard.pages import Page

QUERIES = json.loads(METADATA_PATH.read_text())["databases"]["traces"]["queries"]
DECLARED = {
    (query, name): about
    for query, given in QUERIES.items()
    for name, about in given.get("parameters", {}).items()
}
NUMBERS = [each for each, about in DECLARED.items() if about["type"] == "integer"]
BAD_NUMBERS = ("abc", "7 days", "1e3", "-1", "1.5", "\u0667", "0x10", "9" * 5000, "''")

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def test_whatever_the_sql_takes_for_a_number_is_declared_as_one():
    for name, query in QUERIES.items():
        numbers = set(re.findall(r"cast\([^:]*?:(\w+)[^:]*? as integer\)", query["sql"]))
        declared = {
            n for n, about in query.get("parameters", {}).items() if about["type"] == "integer"
        }
        assert numbers == declared, name


async def test_a_number_that_is_none_is_refused(client, ann, subtests):
    ann.record()
    for number, (query, name) in enumerate(NUMBERS):
        for value in BAD_NUMBERS if number == 0 else BAD_NUMBERS[:1]:
            with subtests.test(f"{query} {name} {value}"):
                answer = await client.get(
                    f"/traces/{query}.json", params={name: value}, headers=ann.cookie
                )
                assert answer.status_code == 400
                assert f"{name} has to be a whole number from" in answer.json()["error"]


async def test_a_number_that_is_none_is_refused_on_a_page_and_in_a_csv(client, ann):
    ann.record()
    query, name = NUMBERS[0]
    page = await client.get(f"/traces/{query}?{name}=abc", headers=ann.cookie)
    assert page.status_code == 400
    assert f"{name} has to be a whole number" in html.unescape(page.text)
    assert f'<a href="/traces/{query}">Back to the page' in page.text
    csv = await client.get(f"/traces/{query}.csv?{name}=abc", headers=ann.cookie)
    assert csv.status_code == 400


async def test_a_choice_that_is_none_is_refused(client, ann):
    ann.record()
    answer = await client.get("/traces/read_body.json?which=answer", headers=ann.cookie)
    assert answer.status_code == 400
    assert answer.json()["error"] == "which has to be request or response; it is 'answer'."


async def test_the_form_shows_the_default_and_what_was_given(client, ann):
    ann.record()
    for given, shown in (("", "30"), ("?days=", "30"), ("?days=90", "90")):
        page = Page((await client.get(f"/traces/cost_by_endpoint{given}", headers=ann.cookie)).text)
        (days,) = [each for each in page.find("input") if each.attributes.get("name") == "days"]
        assert days.attributes["value"] == shown
    page = Page((await client.get("/traces/read_body?which=response", headers=ann.cookie)).text)
    chosen = [each.text for each in page.find("option") if "selected" in each.attributes]
    assert chosen == ["response"]


def test_what_is_no_number_is_refused_for_every_parameter():
    for (query, name), value in itertools.product(NUMBERS, BAD_NUMBERS):
        with pytest.raises(InvalidParameterError, match=f"{name} has to be a whole number from"):
            complete(QUERIES[query]["parameters"], [(name, value)])


def test_arguments_that_are_not_declared_stay():
    declared = {"days": {"type": "integer", "minimum": 0, "maximum": 9, "default": 3}}
    assert complete(declared, [("_size", "5"), ("x", "y")]) == [
        ("_size", "5"),
        ("x", "y"),
        ("days", "3"),
    ]
    with pytest.raises(InvalidParameterError, match="from 0 to 9; it is '10'"):
        complete(declared, [("days", "5"), ("days", "10")])


@pytest.mark.parametrize("argument", ["_search=otter", "_search_slug=otter", "_searchmode=raw"])
async def test_a_search_is_refused_with_what_works_instead(client, ann, argument):
    ann.record()
    for table in ("usage", "usage_log"):
        answer = await client.get(f"/traces/{table}.json?{argument}", headers=ann.cookie)
        assert answer.status_code == 400
        assert "request_body__contains" in answer.json()["error"]
    path = "/traces/usage_log.json?response_body__contains=otter"
    assert (await client.get(path, headers=ann.cookie)).status_code == 200


async def test_a_condition_on_bodies_says_that_it_searches_raw_text(client, ann):
    ann.record()
    for path, is_told in (
        ("/traces/usage_log?response_body__contains=otter", True),
        ("/traces/usage_log?_where=request_body+like+'%25otter%25'", True),
        ("/traces/usage_log?slug=default", False),
        ("/traces/usage", False),
    ):
        page = Page((await client.get(path, headers=ann.cookie)).text)
        told = [each.text for each in page.find("p", "notice")]
        assert any("search the raw text" in text for text in told) == is_told, path


async def test_the_form_for_conditions_says_so_where_there_are_bodies(client, ann):
    ann.record()
    for table, is_told in (("usage_log", True), ("usage", False)):
        page = Page((await client.get(f"/traces/{table}", headers=ann.cookie)).text)
        (form,) = page.find("form", "filters")
        assert ("search the raw text" in form.text) == is_told
