"""The page of what fills the prompt of a call."""

import sqlite3
from contextlib import closing
from decimal import Decimal

import orjson
import pytest

from metering.components import PROMPT_COMPONENTS
from metering.entry import CostItem
from tests.conversations.sessions import MARKER, assistant, conversation, request, text, tool, user
from tests.conversations.upstream_cache import UpstreamCache
from tests.dashboard.pages import Page

EVIL = '<script>alert(1)</script><img src=x onerror="x()">'


def items(**quantities):
    """Line items at $1, $2, … a million tokens, in the order of their names here."""
    return tuple(
        CostItem(
            pass_index=0,
            model="claude-sonnet-4-5",
            component=name,
            quantity=quantity,
            prompt_tokens=1,
            rate_usd=Decimal(number),
            multiplier=Decimal(1),
            cents=Decimal(quantity * number) / 10_000,
        )
        for number, (name, quantity) in enumerate(quantities.items(), 1)
    )


def call(body, **quantities):
    return {
        "request_body": body if isinstance(body, bytes) else orjson.dumps(body),
        "cost_items": items(**quantities) if quantities else (),
        "session_id": "s1",
    }


def table(page, label):
    """The rows of a table, as texts of their cells by the names of the columns."""
    [region] = [e for e in page.elements if e.attributes.get("aria-label") == label]
    inside = [e for e in page.elements if region in e.parents]
    heads = [e.text for e in inside if e.tag == "th" and e.is_within("thead")]
    columns = ["name", *heads[1:]]
    rows = []
    for row in (e for e in inside if e.tag == "tr" and e.is_within("tbody")):
        cells = [e for e in inside if row in e.parents and e.tag in ("th", "td")]
        rows.append(dict(zip(columns, (e.text for e in cells), strict=True)))
    return rows


def dense(page, caption):
    """The rows of a dense table, as texts of their cells by the words of the head."""
    [found] = [e for e in page.elements if e.tag == "caption" and e.text.startswith(caption)]
    inside = [e for e in page.elements if found.parents[-1] in e.parents and e.tag in ("th", "td")]
    heads = [e.text.rstrip(" ↓") for e in inside if e.is_within("thead")]
    cells = [e.text for e in inside if e.is_within("tbody")]
    return [
        dict(zip(heads, cells[start : start + len(heads)], strict=True))
        for start in range(0, len(cells), len(heads))
    ]


def number(text):
    return int(text.replace(",", ""))


def test_the_page_says_what_fills_the_prompt_and_adds_up(ann):
    body = request(*conversation(3)) | {"tools": [tool("Read"), tool("mcp__tracker__list")]}
    ann.record(call(body, cache_read=4_000, cache_write_5m=300, input=20))
    response = ann.get("/traces/usage/1/context")
    assert response.status_code == 200
    page = Page(response.text)
    rows = table(page, "Categories")
    assert sum(number(row["Bytes"]) for row in rows) == len(orjson.dumps(body))
    assert sum(number(row["Tokens"]) for row in rows) == 4_320
    for column, billed in (("Cache read", 4_000), ("Cache write", 300), ("Uncached", 20)):
        assert sum(number(row[column]) for row in rows) == billed
    servers = [row["name"] for row in table(page, "Tools by MCP server")]
    assert servers == ["tracker", "None: tools of the client"]
    assert "message 5" in [row["Where"] for row in table(page, "Largest items")]
    assert "What is her name?" in ann.get("/traces/usage/1/request/messages/1-1").text
    assert 'href="/traces/usage/1/request/messages/1-1"' in response.text
    assert 'href="/traces/usage/1/request/front"' in response.text


def test_costs_of_the_categories_are_the_prompt_of_the_bill(ann):
    ann.record(call(request(*conversation(3)), cache_read=4_000, cache_write_5m=300, input=20))
    rows = table(Page(ann.get("/traces/usage/1/context").text), "Categories")
    shown = sum(Decimal(row["Cost"].replace("$", "").replace("<", "")) for row in rows)
    with closing(sqlite3.connect(ann.path)) as db:
        sql = (
            "select sum(cents) from usage_cost where component in (select value from json_each(?))"
        )
        (cents,) = db.execute(sql, (orjson.dumps(PROMPT_COMPONENTS).decode(),)).fetchone()
    assert float(shown) == pytest.approx(cents / 100, abs=0.0001 * len(rows))


def test_rows_are_sorted_by_the_column_that_is_asked_for(ann):
    ann.record(call(request(*conversation(3)), input=4_320))
    for sort, column in (("bytes", "Bytes"), ("tokens", "Tokens")):
        rows = table(Page(ann.get(f"/traces/usage/1/context?sort={sort}").text), "Categories")
        sizes = [number(row[column]) for row in rows]
        assert sizes == sorted(sizes, reverse=True)
    names = [
        r["name"]
        for r in table(Page(ann.get("/traces/usage/1/context?sort=name").text), "Categories")
    ]
    assert names == sorted(names)
    assert ann.get("/traces/usage/1/context?sort=nonsense").status_code == 200


def test_without_counts_there_are_bytes_alone(ann):
    ann.record(
        call(request(*conversation(2)))
        | {
            "input_tokens": None,
            "output_tokens": None,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": None,
            "cost_cents": None,
        }
    )
    page = ann.get("/traces/usage/1/context").text
    assert "Upstream counted no tokens" in page
    assert "Tokens billed" not in page


def test_any_request_has_a_page(ann, subtests):
    for body in (None, b"\xff\x00{", b"[1]", b"{", b"{}"):
        n = ann.record({"request_body": body, "cost_items": items(input=50)})
        with subtests.test(body):
            response = ann.get(f"/traces/usage/{n}/context")
            assert response.status_code == 200
            assert ("not kept" in response.text) == (body is None)


def test_markup_in_a_body_stays_text(ann):
    result = {"type": "tool_result", "tool_use_id": "t1", "content": EVIL}
    use = {"type": "tool_use", "id": "t1", "name": EVIL, "input": {"x": EVIL}}
    body = {
        "model": EVIL,
        "tools": [tool(EVIL), tool(f"mcp__{EVIL}__x")],
        "messages": [user(text(EVIL, MARKER)), assistant(use), user(result)],
    }
    ann.record(call(body, cache_write_5m=300, input=20) | {"request_model": EVIL, "model": EVIL})
    page = ann.get("/traces/usage/1/context").text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_the_page_of_a_call_leads_to_its_context(ann):
    ann.record(call(request(*conversation(1)), input=900))
    assert 'href="/traces/usage/1/context"' in ann.get("/calls/1").text


# -- sessions ------------------------------------------------------------------------------------------


def growing(turns, **changes):
    """Calls of a session, each of which goes on from the one before."""
    upstream = UpstreamCache()
    for number in range(1, turns + 1):
        body = request(*conversation(number))
        counts = upstream.count(body, number * 60)
        yield (
            call(
                body,
                cache_read=counts["cache_read_input_tokens"],
                cache_write_5m=counts["cache_creation_input_tokens"],
                input=counts["input_tokens"],
            )
            | {
                "entry_id": f"e{number}",
                "created_at": f"2026-03-01T10:{number:02}:00.000Z",
                "message_count": 2 * number - 1,
                "tool_count": 2,
            }
            | changes
        )


def record_chain(person, *calls):
    """Record calls that continue one another."""
    person.record(*calls)
    with closing(sqlite3.connect(person.path)) as db, db:
        db.execute(
            "insert into predecessors (usage_id, previous_id) select b.id, a.id from usage as a join usage as b"
            " on b.id = a.id + 1 and b.session_id = a.session_id"
        )


def test_a_session_shows_how_its_prompts_grew_and_what_that_cost(ann):
    record_chain(ann, *growing(5))
    response = ann.get("/sessions/s1/context")
    assert response.status_code == 200
    page = Page(response.text)
    rows = dense(page, "Categories")
    with closing(sqlite3.connect(ann.path)) as db:
        (cents,) = db.execute("select sum(cents) from usage_cost").fetchone()
        (last,) = db.execute("select sum(quantity) from usage_cost where usage_id = 5").fetchone()
    cost = sum(float(row["Cost"].strip("$<")) for row in rows)
    assert cost == pytest.approx(cents / 100, abs=0.0005 * len(rows))
    assert sum(number(row["Last turn"]) for row in rows) == pytest.approx(last, abs=9)
    items = {row["First in"]: row for row in dense(page, "Items by what")}
    assert items["turn 1, system prompt"]["Calls"] == "5"
    assert items["turn 3, message 5"]["Calls"] == "3"
    turns = [e for e in page.elements if e.tag == "a" and e.is_within("svg")]
    assert [e.attributes["aria-label"].partition(",")[0] for e in turns] == [
        f"Turn {n}" for n in range(1, 6)
    ]
    assert turns[-1].attributes["aria-label"] == f"Turn 5, {last:,} tokens"
    assert "are estimated" not in response.text
    assert 'href="/sessions/s1/context"' in ann.get("/sessions/s1").text


def test_a_long_session_says_which_of_its_turns_are_shown(ann, monkeypatch):
    record_chain(ann, *growing(5))
    monkeypatch.setattr("dashboard.context.session_page.MOST_LISTED", 3)
    monkeypatch.setattr("dashboard.context.growth_chart.MAX_COLUMNS", 2)
    page = ann.get("/sessions/s1/context").text
    assert "Every 2nd turn as a table" in page
    assert "Drawn from every 3rd turn." in page


def test_a_turn_of_another_history_is_taken_apart_or_called_estimated(ann, monkeypatch):
    calls = list(growing(5))
    odd = request(user(text("Something else entirely. " * 4_000)))
    calls[2] |= {"request_body": orjson.dumps(odd)}
    record_chain(ann, *calls)
    assert "3 of 5 were taken apart" in ann.get("/sessions/s1/context").text
    monkeypatch.setattr("dashboard.context.session_page.MOST_READ", 1)
    page = ann.get("/sessions/s1/context").text
    assert "1 of 5 turns are estimated" in page


def test_conversations_of_a_session_have_pages_of_their_own(ann):
    calls = list(growing(3))
    other = call(request(*conversation(1, "Another. ")), input=500) | {
        "agent_id": "sub", "message_count": 1, "created_at": "2026-03-01T11:00:00.000Z"
    }  # fmt: skip
    record_chain(ann, *calls)
    ann.record(other)
    page = ann.get("/sessions/s1/context").text
    assert "2 conversations." in page
    assert "<bdi>Subagent sub</bdi>" in page
    assert '<dd class="figure">1</dd>' in ann.get("/sessions/s1/context?conversation=2").text
    assert ann.get("/sessions/s1/context?conversation=3").status_code == 404
    assert ann.get("/sessions/s1/context?conversation=x").status_code == 400


def test_a_session_without_bodies_says_so(ann):
    record_chain(ann, *[each | {"request_body": None} for each in growing(2)])
    assert "No request body of this conversation is kept" in ann.get("/sessions/s1/context").text
