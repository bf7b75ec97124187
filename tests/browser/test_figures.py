"""Figures on pages are those that SQL of its own computes from the calls."""

import json
import re

import pytest

from metering.formats import (
    format_bytes,
    format_call_cost,
    format_cents,
    format_count,
    format_per_cent,
    format_short_tokens,
    format_some_cost,
    format_sum_cost,
    format_tokens,
)
from tests.browser.example_calls import HAIKU, PHRASE, SESSION, TASK
from tests.browser.facts import BREAK_COSTS, Facts, read_figures, read_rows
from tests.browser.results import read_results, see_result

WEEK = "created_at >= date('now', '-6 days')"
FAILED_TOOLS = (
    "select count(*) from tool_uses as t join usage as u on u.id = t.usage_id"
    " where u.session_id = ? and t.problem is not null"
)


@pytest.fixture
def facts(example):
    return Facts(example.traces_path)


def read_rail(visitor, *, titles=False):
    """Return the figures beside a page, or what their titles say more exactly, by label."""
    script = (
        "return Object.fromEntries([...document.querySelectorAll('.rail dl > div')].map((each) =>"
        " [each.querySelector('dt').textContent, arguments[0] ? each.querySelector('dd').title"
        " : squeeze(each.querySelector('dd').textContent)]))"
    )
    return visitor.run(script, titles)


def read_json(visitor, address):
    """Return the JSON of an address that the visitor may read."""
    script = "fetch(arguments[0]).then((answer) => answer.text()).then(done)"
    return json.loads(visitor.run_async(script, address))


def test_home(rosa, facts):
    rosa.open("/?order=cost")
    figures = read_figures(rosa)
    today = facts.sum_calls("created_at >= date('now')")
    assert figures["Today"].startswith(f"Today: {format_sum_cost(today['cents'])} ")
    assert f"{format_count(today['calls'])} call" in figures["Today"]
    shown = read_rows(rosa, "Sessions")
    costs = facts.sum_calls_by("session_id")
    uses = facts.rows(
        "select session_id as name, count(*) as failed from tool_uses as t"
        " join usage as u on u.id = t.usage_id where t.problem is not null group by 1"
    )
    failed_uses = {each["name"]: each["failed"] for each in uses}
    assert [(each["Cost ↓"], each["Calls"], each["Failed"]) for each in shown][: len(costs)] == [
        (
            format_sum_cost(each["cents"]),
            str(each["calls"]),
            str(each["errors"] + failed_uses.get(each["name"], 0)),
        )
        for each in costs
    ]


def test_costs_of_a_period(rosa, facts):
    rosa.open("/?period=7d&by=endpoint")
    week = facts.sum_calls(WEEK)
    parts = rosa.run("return document.querySelector('.as-table').textContent")
    assert f"{format_sum_cost(week['estimated'])} of it estimated" in parts
    assert f"{format_sum_cost(week['value'])} of it not billed to you" in parts
    shown = read_rows(rosa, "7 days against the time before, by endpoint")
    assert [
        (each["Endpoint"], each["7 days ↓"], each["Calls"], each["Cached"]) for each in shown
    ] == [
        (
            each["name"],
            format_sum_cost(each["cents"]),
            format_count(each["calls"]),
            format_per_cent(each["read"], each["prompt"]),
        )
        for each in facts.sum_calls_by("slug", WEEK)
    ]
    for call_ids in ("session", "agent"):
        totals = read_json(rosa, f"/overview.json?span=7d&by={call_ids}")["totals"]
        assert (totals["calls"], totals["errors"]) == (week["calls"], week["errors"])
        assert totals["cost_cents"] == pytest.approx(week["cents"])


def test_sessions(rosa, facts, example):
    rosa.open("/sessions")
    rows = read_rows(rosa, "Sessions, the one that ended last first")
    shown = {each["Title"]: each for each in rows}
    named = shown[TASK]
    own = facts.sum_calls("session_id = ?", SESSION)
    failed_tools = facts.value(FAILED_TOOLS, SESSION)
    assert failed_tools > 0
    assert named["Calls"] == str(own["calls"])
    assert named["Failed"] == str(own["errors"] + failed_tools)
    assert named["Cost"] == format_sum_cost(own["cents"])
    assert named["Cache breaks"] == str(len(facts.rows(BREAK_COSTS, SESSION))) == "3"
    (listed,) = [
        each for each in read_json(rosa, "/sessions.json")["items"] if each["session_id"] == SESSION
    ]
    assert listed["cost_cents"] == pytest.approx(own["cents"])
    assert (listed["errors"], listed["failed_tools"]) == (own["errors"], failed_tools)
    unnamed = shown["A cab for 12 Harbour Road, please. no id"]
    ids = [example.ids[f"unnamed-{number}"] for number in (1, 2, 3)]
    sums = facts.sum_calls("id in (?, ?, ?)", *ids)
    assert (unnamed["Calls"], unnamed["Cost"]) == ("3", format_sum_cost(sums["cents"]))


def test_session(rosa, facts, example):
    rosa.open(f"/sessions/{SESSION}")
    figures = read_rail(rosa)
    sums = facts.sum_calls("session_id = ?", SESSION)
    lede = rosa.run("return document.querySelector('.lede').textContent")
    assert lede.startswith(f"{format_some_cost(sums['cents'])} for ")
    assert figures["Tokens out"] == format_short_tokens(sums["output"])
    assert figures["From cache"] == format_per_cent(sums["read"], sums["prompt"])
    assert figures["Largest prompt"] == format_short_tokens(sums["largest"])
    exact = read_rail(rosa, titles=True)
    assert exact["Tokens in"] == format_count(sums["prompt"])
    assert exact["Largest prompt"] == format_count(sums["largest"])
    turns = facts.rows(
        "select id, cost_cents as cents from usage where session_id = ?"
        " and outcome in ('complete', 'client_disconnected') order by created_at, id",
        SESSION,
    )
    lines = rosa.run(
        "return [...document.querySelectorAll('.line[data-call]')].map((each) =>"
        " [Number(each.dataset.call), squeeze(each.querySelector('.cost').textContent)])"
    )
    assert sorted(lines) == sorted([each["id"], format_call_cost(each["cents"])] for each in turns)
    assert rosa.run("return document.querySelectorAll('.event[id^=break]').length") == 3
    words = rosa.text
    for name, what in (
        ("lost-tool", "“mcp__maps__route” was removed"),
        ("edited", "“yesterday.” became “Monday.”"),
    ):
        (cost,) = [
            each["cents"]
            for each in facts.rows(BREAK_COSTS, SESSION)
            if each["id"] == example.ids[name]
        ]
        assert what in words
        assert f"{format_some_cost(cost)} more than reading them" in words
    for planted in (
        "529 overloaded_error from upstream",
        "Compacted from",
        "50 min pause",
    ):
        assert planted in words


def test_call(rosa, facts, example):
    rosa.open(f"{example.call('lost-tool')}/cost")
    call = facts.sum_calls("id = ?", example.ids["lost-tool"])
    figures = read_rail(rosa)
    assert figures["Cost"] == format_cents(call["cents"])
    assert figures["Tokens in"] == format_short_tokens(call["prompt"])
    assert figures["Tokens out"] == format_short_tokens(call["output"])
    assert read_rail(rosa, titles=True)["Tokens in"].startswith(f"{format_count(call['prompt'])} ")
    lines = facts.rows(
        "select quantity, quantity * rate_usd / 1e6 as usd from usage_cost where usage_id = ?"
        " order by line",
        example.ids["lost-tool"],
    )
    shown = read_rows(rosa, "Line items of the cost")
    assert [each["Quantity"] for each in shown] == [
        format_count(each["quantity"]) for each in lines
    ]
    paid = [float(each["Cost"].strip("$")) for each in shown]
    assert paid == pytest.approx([each["usd"] for each in lines])
    assert sum(paid) * 100 == pytest.approx(call["cents"])
    total = rosa.run("return document.querySelector('table.bill tfoot td:last-child').textContent")
    assert float(total.strip("$")) * 100 == pytest.approx(call["cents"])


def test_context(rosa, facts, example):
    call = example.ids["lost-tool"]
    rosa.open(f"/traces/usage/{call}/context")
    size = facts.value("select request_body_length from usage where id = ?", call)
    body = facts.sum_calls("id = ?", call)
    figures = read_figures(rosa)
    assert figures["Request body"] == format_bytes(size)
    assert figures["Prompt"].split()[0] == format_tokens(body["prompt"])
    assert figures["Cache read"].split()[0] == format_tokens(body["read"])
    rows = read_rows(rosa, "Categories")
    bytes_, tokens = (
        sum(int(re.split(r"\D", each[column].replace(",", ""))[0] or 0) for each in rows)
        for column in ("Bytes", "Tokens")
    )
    assert bytes_ == size
    assert tokens == pytest.approx(body["prompt"], abs=len(rows))


def test_savings(rosa, facts):
    found = read_json(rosa_at(rosa, "/savings"), "/savings.json?period=7d")
    rosa.open("/savings?period=7d")
    breaks = {
        each["subject"]: each["cost_cents"]
        for each in found["items"]
        if each["finding"] == "cache_break"
    }
    costs = [each["cents"] for each in facts.rows(BREAK_COSTS, SESSION)]
    assert breaks["tools"] == pytest.approx(costs[0])
    assert breaks["messages"] == pytest.approx(costs[2])
    counted = [each["cost_cents"] for each in found["items"] if each["is_saving"]]
    total = sum(counted) + found["smaller"]["cost_cents"]
    assert found["total_cents"] == pytest.approx(total)
    lede = rosa.run("return squeeze(document.querySelector('.lede').textContent)")
    spent = facts.value(
        "select sum(cost_cents) from usage where created_at >= ?", found["first_day"]
    )
    both = f"{format_sum_cost(found['total_cents'])} of {format_sum_cost(spent)}"
    assert lede.startswith(f"{both} could have been saved")
    shown = {
        each["What could be saved"]: (each["Calls"], each["Cost ↓"])
        for each in read_rows(rosa, "What could have been saved, by kind")
        if "Cost ↓" in each
    }
    assert shown["the tools changed"] == ("1", format_sum_cost(costs[0]))
    assert shown["an earlier message changed"] == ("1", format_sum_cost(costs[2]))
    assert total < facts.value("select sum(cost_cents) from usage")


def rosa_at(visitor, path):
    visitor.open(path)
    return visitor


def test_search(rosa, facts, example):
    rosa.open('/search?q="night+tariff+fails"')
    hits = read_results(rosa, '/search.json?q="night+tariff+fails"')
    having = facts.rows(
        "select id from usage_log where instr(cast(request_body as text), 'night tariff fails')"
        " and session_id = ? order by created_at",
        SESSION,
    )
    hit = min(hits, key=lambda each: each["id"])
    assert (hit["role"], hit["id"]) == ("user", having[0]["id"])
    see_result(rosa, f"Call {having[0]['id']}")
    (said,) = read_results(rosa, f'/search.json?q="{PHRASE}"'.replace(" ", "+"))
    assert (said["role"], said["id"], said["other_calls"]) == (
        "assistant",
        example.ids["phrase"],
        0,
    )
    raw = facts.value(
        "select cast(response_body as text) from usage_log where id = ?", example.ids["phrase"]
    )
    assert PHRASE not in raw, "it came in parts"


def test_queries(rosa, facts):
    found = read_json(rosa_at(rosa, "/traces"), "/traces/cost_by_model.json?_shape=array&days=30")
    shown = {each["model"]: each["calls"] for each in found}
    for row in facts.sum_calls_by("model"):
        assert shown[row["name"]] == row["calls"]
    broken = read_json(rosa, "/traces/cache_breaks_by_day.json?_shape=array&days=7")
    costs = facts.rows(BREAK_COSTS, SESSION)
    assert sum(each["calls"] for each in broken) == len(costs) == 3
    assert sum(each["tokens"] for each in broken) == sum(each["tokens"] for each in costs)
    paid = sum(each["extra_cost_usd"] for each in broken)
    assert paid == pytest.approx(sum(each["cents"] for each in costs) / 100, abs=1e-3)


def test_exports(rosa, facts):
    rosa.open("/traces/usage")
    script = "fetch(arguments[0]).then((answer) => answer.text()).then(done)"
    lines = rosa.run_async(script, f"/traces/usage.jsonl?model={HAIKU}").splitlines()
    sums = facts.sum_calls("model = ?", HAIKU)
    assert len(lines) == sums["calls"]
    assert sum(json.loads(each)["cost_cents"] or 0 for each in lines) == pytest.approx(
        sums["cents"]
    )
    session = read_json(rosa, f"/sessions/{SESSION}.json")
    own = facts.sum_calls("session_id = ?", SESSION)
    assert sum(each["cost_cents"] for each in session["turns"]) == pytest.approx(own["cents"])
    file = rosa.run_async(script, f"/sessions/{SESSION}/export.html?bodies=yes")
    assert f": {own['calls']} calls of session" in file
    assert f'<p class="lede"><b>{format_some_cost(own["cents"])}</b> for ' in file
