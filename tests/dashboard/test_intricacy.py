# ruff: noqa: S608 - SQL made of text is what is measured here
import json

import pytest

from dashboard.tables.instances import METADATA_PATH
from dashboard.tables.intricacy import MAX_INTRICACY, measure_intricacy

QUERIES = json.loads(METADATA_PATH.read_text())["databases"]["traces"]["queries"]


def chain(link, count=20):
    """Each uses the one before, whose name stands for ``{}``."""
    links = ", ".join(f"c{n}(x) as ({link.format(f'c{n - 1}')})" for n in range(1, count))
    return f"with c0(x) as (select 1), {links} select * from c{count - 1}"


@pytest.mark.parametrize("name", QUERIES)
def test_our_own_queries_are_far_from_the_limit(name):
    assert measure_intricacy(QUERIES[name]["sql"]) < MAX_INTRICACY / 100


@pytest.mark.parametrize(
    "query",
    [
        chain("select x + 1 from {}", 100),
        chain("select x from {} where x > 0 and x < 9", 10),
        "with a as (select 1 as x), b as (select * from a, a as a2) select * from b, b as b2, a",
        "with recursive d(n) as (select 1 union all select n + 1 from d where n < 9) select * from d",
        "select " + ", ".join(f"sum(id = {n})" for n in range(1000)) + " from usage",
        "select 'c0 c0 c0' as c0 from usage -- (((",
        "select (((1",
        "'",
        "",
    ],
)
def test_what_people_ask_passes(query):
    assert measure_intricacy(query) <= MAX_INTRICACY


@pytest.mark.parametrize(
    "query",
    [
        chain("select a.x from {0} a, {0} b"),
        chain("select x from {0} union all select x from {0}"),
        chain("select (select x from {0}) + (select x from {0})"),
        chain("select x from {0} where x in {0}"),
        chain("select x + x from {}"),
        chain('select a.x from "{0}" a, [{0}] b'),
        chain("select a.x from '{0}' a, `{0}` b /* ( */"),
        chain("select a.x from {0} a, {0} b -- (\n"),
        chain("select a.x from {0} a, {0} b").replace(" as (", " AS NOT MATERIALIZED ("),
        chain("select a.x from {0} a, {0} b").upper(),
        "(" * 5000,
        chain("select x from {}", 300),
    ],
)
def test_what_doubles_again_and_again_does_not(query):
    assert measure_intricacy(query) > MAX_INTRICACY


def test_a_name_is_that_of_the_nearest_query():
    query = "select 1"
    for _ in range(20):
        query = f"with a as ({query}) select 1 from a, a as b"
    assert measure_intricacy(query) > MAX_INTRICACY
    beside = ", ".join(["(with a as (select 1 as x) select x from a)"] * 60)
    assert measure_intricacy(f"select {beside}") < 1000
