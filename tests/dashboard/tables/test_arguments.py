"""Arguments that Datasette parses without checking them."""

from urllib.parse import parse_qsl, quote

import pytest

from dashboard.tables import arguments
from store.traces.database import TraceDatabase
from tests.dashboard.browsing import OURS, record
from tests.store.traffic import make_entry

NESTED = "[" * 20_000
DIGITS = "9" * 5_000
JUST_TOO_LARGE = "9" * 19

MISTAKES = [
    ("usage", f"_through={NESTED}"),
    ("usage", "_through=" + quote(f'{{"table":"usage_cost","column":"usage_id","value":{NESTED}')),
    ("usage", "_through=" + quote('{"table":"usage_cost","column":"usage_id","value":[1]}')),
    ("usage", "_through=" + quote(f'{{"table":"usage_cost","column":"id","value":{DIGITS}}}')),
    ("usage", "_facet=" + quote(f'{{"table":{NESTED}')),
    ("usage", "_facet_array=" + quote(f'{{"column":{NESTED}')),
    ("usage", "_facet=" + quote('{"column":["id"]}')),
    ("usage", f"id__in={NESTED}"),
    ("usage", "id__in=[{}]"),
    ("usage", f"id__in=[{DIGITS}]"),
    ("usage", f"id__notin={NESTED}"),
    ("usage", "id__gt=²"),
    *(
        (table, f"{name}={number}")
        for table, number in (("usage", DIGITS), ("usage_log", JUST_TOO_LARGE))
        for name in ("id__gt", "cost_cents__lte", "_next", "_size", "_timelimit", "_ttl")
    ),
    ("usage", f"_facet=slug&_facet_size={DIGITS}"),
    (f"usage/{DIGITS}", ""),
    (f"usage_log/{DIGITS}", ""),
    (f"usage_cost/1,{DIGITS},0", ""),
]


@pytest.mark.slow
async def test_what_cannot_be_parsed_is_told_as_a_mistake(client, ann, caplog, subtests):
    record(ann.path, OURS)
    for table, query in MISTAKES:
        for suffix in ("", ".json", ".csv"):
            with subtests.test(table, query=query[:60], suffix=suffix):
                address = f"/traces/{table}{suffix}?{query}"
                check_mistake(await client.get(address, headers=ann.cookie), suffix)
    assert not caplog.records


def check_mistake(answer, suffix):
    assert answer.status_code == 400
    assert len(answer.content) < 20_000
    assert "Traceback" not in answer.text
    if suffix:
        assert answer.json()["error"]
    else:
        assert 'class="problem"' in answer.text


@pytest.mark.parametrize("argument", ["_json=request_body", "_facet_array=request_body"])
async def test_a_body_nested_deeply_is_no_failure_of_ours(client, ann, caplog, argument):
    with TraceDatabase(ann.path) as traces:
        traces.insert([make_entry(request_body=b"[" * 200_000)])
    answer = await client.get(f"/traces/usage_log.json?{argument}", headers=ann.cookie)
    assert answer.status_code in (200, 400)
    assert not caplog.records


GOOD = [
    "",
    "_facet=slug&_facet_date=created_at&_facet_array=betas&_facet_size=max",
    '_facet={"column":"slug"}&_facet={"simple":"slug"}',
    "_size=max&_next=12,13&_sort_desc=id&_ttl=0&_timelimit=500",
    "_size=&_next=&_ttl=&_facet_size=",
    "id__gt=123456789012345678&created_at__gte=2026-01-01&slug__lt=abc&cost_cents__gt=1.5",
    'id__in=1,2,3&slug__in=[1, 2.5, null, "x"]&id__in=[]',
    '_through={"table":"usage_cost","column":"usage_id","value":-1}',
    f"sql=select {DIGITS}&days={DIGITS}&slug={DIGITS}&_search={DIGITS}",
]


@pytest.mark.parametrize("query", GOOD)
def test_ordinary_arguments_pass(query):
    given = parse_qsl(query, keep_blank_values=True)
    assert arguments.find_error("/traces/usage/12.json", given) is None


def test_a_mistake_names_the_argument_and_what_it_has_to_be():
    mistake = arguments.find_error("/traces/usage", [("_ttl", DIGITS)])
    assert mistake is not None
    assert mistake.startswith("_ttl has to be a number of seconds; it is '999")
    assert len(mistake) < 300
