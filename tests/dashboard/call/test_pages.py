"""The page of one call as the web process serves it, with its bodies and their files."""

import asyncio
import html
import json
import re
import shlex
import sqlite3
from contextlib import closing
from decimal import Decimal
from itertools import pairwise
from typing import Any

import psutil
import pytest

from dashboard.call.addresses import Address, find_address
from dashboard.call.bodies import MAX_RAW_BYTES
from dashboard.call.downloads import MAX_DOWNLOADS, Downloads
from dashboard.replay.snippets import make_curl, read_parts
from metering.rate_limits import RateLimits
from runtime import clock
from runtime.organization_locks import MAX_WAITING
from store.control.people import Caller
from store.traces.calls.call_reader import CHUNK_BYTES
from tests.dashboard.pages import Page, find_address as address_of, words_of
from tests.store.traffic import agent_requests, make_entry, make_item

BASE_URL = "http://meter.example:8080"
REQUEST = json.dumps(
    {
        "model": "claude-x",
        "max_tokens": 100,
        "system": "You are brief.",
        "tools": [{"name": "read_file", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "What is in it?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"p": 1}}
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "forty-two"}],
            },
        ],
    }
).encode()
ANSWER = json.dumps(
    {"content": [{"type": "text", "text": "It is 42."}], "stop_reason": "end_turn"}
).encode()
EVIL = "</pre><script>alert(1)</script>\u202e\x1b[31m\x00\"'<img src=x onerror=alert(1)>"


@pytest.fixture
def ask(client, ann):
    async def ask(path, **headers):
        return await client.get(path, headers=ann.cookie | headers)

    return ask


def words(answer):
    """Return the words of a page, as a reader sees them."""
    text = re.sub(r"<(script|style).*?</\1>", "", answer.text, flags=re.DOTALL)
    return words_of(text)


# -- addresses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/traces/usage/7", (7, None, None, False)),
        ("/traces/usage/7/request", (7, "request", None, False)),
        ("/traces/usage/7/response/read", (7, "response", "read", False)),
        ("/traces/usage/7/request/raw/part", (7, "request", "raw", True)),
    ],
)
def test_our_addresses_are_found(path, address):
    usage_id, side, view, is_part = address
    assert find_address(path) == Address(usage_id=usage_id, side=side, view=view, is_part=is_part)


async def test_an_entry_id_leads_to_the_page_of_its_call(ask, ann):
    entry_id = clock.new_id()
    ann.record({}, {"entry_id": entry_id}, {})
    answer = await ask(f"/calls/{entry_id}")
    assert answer.status_code == 200
    assert "call 2" in words(answer)
    assert (await ask(f"/calls/{clock.new_id()}")).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/traces/usage/7.json",
        "/traces/usage",
        "/traces/usage/",
        "/traces/usage/7/",
        "/traces/usage/7\n",
        "/traces/usage/-7",
        "/traces/usage/" + "7" * 19,
        "/traces/usage/\u0667",
        "/traces/usage/7/part",
        "/traces/usage/7/request/part",
        "/traces/usage_log/7",
    ],
)
def test_all_others_are_datasettes(path):
    assert find_address(path) is None


async def test_json_and_programs_get_datasettes_own(client, ann):
    ann.record()
    answer = await client.get("/traces/usage/1.json?_shape=array", headers=ann.cookie)
    assert answer.json()[0]["id"] == 1
    for headers in (ann.bearer, ann.cookie | {"accept": "application/json"}):
        answer = await client.get("/traces/usage/1", headers=headers)
        assert "datasette" in answer.text.lower()
        assert "Details" not in answer.text


# -- the page ----------------------------------------------------------------------------------------


async def test_the_page_shows_the_call(ask, ann):
    ann.record(
        request_body=REQUEST,
        response_body=ANSWER,
        session_id="s 1/é",
        client="claude-cli/2.1.0",
        ttfb_ms=42.0,
        duration_ms=1234.5,
        upstream_request_id="req_1",
        service_tier="standard",
    )
    page = await ask("/calls/1")
    assert page.status_code == 200
    seen = words(page)
    for text in ("claude-sonnet-4-5", "complete", "1.2 s", "$0.0125", "From cache 50 %"):
        assert text in seen
    assert 'href="/sessions/s%201%2F%C3%A9"' in page.text
    for text in ("read_file", "What is in it?", "forty-two", "It is 42."):
        assert text in seen
    assert 'href="/traces/usage/1.json"' in (await ask("/calls/1/raw")).text
    details = words(await ask("/calls/1/details"))
    for text in ("req_1", "claude-cli/2.1.0"):
        assert text in details
    shown, _, empty = details.partition("empty facts are not shown")
    assert "Agent" not in shown.partition("Details Call")[2], "what is not known is counted"
    assert "Agent, Parent agent" in empty


async def test_a_call_is_named_by_what_was_asked_last(ask, ann):
    ann.record(
        {"title_text": "What is in it?"},
        {"created_at": "2026-01-02T03:04:05.678Z"},
        {"title_text": "a\u202eb"},
    )
    for number, heading, title in (
        (1, "What is in it?", "What is in it? · Taximeter"),
        (2, "claude-sonnet-4-5", "claude-sonnet-4-5 · Taximeter"),
        (3, "a⟨U+202E⟩b", "a⟨U+202E⟩b · Taximeter"),
    ):
        page = Page((await ask(f"/calls/{number}")).text)
        assert page.find("h1")[0].text == heading
        assert page.find("title")[0].text == title
        assert "claude-sonnet-4-5" in page.find("main")[0].text


async def test_what_else_is_known_of_a_call_is_said_in_words(ask, ann):
    ann.record(
        stop_reason="refusal",
        refusal_category="cyber",
        thinking_tokens=1_234,
        cache_write_1h_tokens=20,
        web_search_requests=3,
        output_tokens_per_s=45.64,
        effort="high",
        thinking_budget=8_000,
        cache_ttl="1h",
        parent_agent_id="p1",
        request_class="main",
        prompt_id="q1",
        client_hints='{"trace-id":"abc","x-claude-code-agent-type":"Ex\u202eplore","new":"no"}',
        billing="subscription",
        overage=False,
        upstream_organization_id="o1",
        workspace_id="w1",
        message_id="msg_2",
        thread="continue",
        thread_previous_id="msg_1",
        user_profile_id="uprof_1",
        product="batch",
        rate_limits=RateLimits(
            requests_limit=50,
            requests_remaining=40,
            requests_reset_at="2026-01-02T03:05:00Z",
            unified_5h_utilization=0.26,
            unified_5h_status="allowed",
            overage_status="rejected",
            unified_status="allowed",
            unified_claim="five_hour",
            retry_after_s=2.5,
        ),
    )
    seen = words(await ask("/calls/1/details"))
    for text in (
        "Stop reason refusal",
        "Refusal category cyber",
        "Reasoning, in output 1,234",
        "One-hour, in cache writes 20",
        "Web searches 3",
        "Output speed 45.6 tokens per second",
        "Effort high",
        "Thinking budget 8,000",
        "Cache lifetime 1h",
        "Parent agent p1",
        "Request class main",
        "Prompt q1",
        "Message id msg_2",
        "Message thread continue",
        "Continues message msg_1",
        "User profile uprof_1",
        "Product batch",
        "Trace id abc",
        "Agent type Ex⟨U+202E⟩plore",
        "Billing subscription, which covers the call",
        "Organization o1",
        "Workspace w1",
        "Requests per minute 40 of 50 remain (resets 2026-01-02 03:05:00 UTC",
        "Subscription, 5 hours 26% used, allowed",
        "Extra usage rejected",
        "Subscription status allowed",
        "Limit that counts most 5 hours",
        "Retry after 2.5 s",
    ):
        assert text in seen


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"billing": "api_key"}, "Billing by token (API key)"),
        ({"billing": "subscription", "overage": True}, "Billing subscription, as paid extra usage"),
        ({}, "Inference region, Billing, "),
    ],
)
async def test_the_page_says_who_pays(ask, ann, fields, text):
    ann.record(fields)
    seen = words(await ask("/calls/1/details"))
    assert text in seen
    assert "Rate limits" not in seen


async def test_every_link_of_a_value_leads_to_its_calls(ask, ann):
    ann.record(session_id="a b&c=d", slug="x", model="m/1", client="c;d", error_type="e+f")
    page = await ask("/calls/1/details")
    links = set(map(html.unescape, re.findall(r'href="(/traces/usage\?[^"]+)"', page.text)))
    assert len(links) > 6
    for link in links:
        assert (await ask(link.replace("?", ".json?_shape=array&"))).json()[0]["id"] == 1


async def test_the_page_may_load_our_script_and_nothing_else(ask, ann):
    ann.record()
    page = await ask("/calls/1")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert not re.search(r"<script(?! src=\"/static/)|<style| style=| on\w+=", page.text)
    assert page.headers["cache-control"] == "private, no-store"
    for path in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)):
        assert (await ask(path)).status_code == 200


async def test_headings_go_down_one_step_at_a_time(ask, ann):
    ann.record(request_body=REQUEST, response_body=ANSWER)
    for path in ("/calls/1", "/traces/usage/1/request/read", "/traces/usage/1/response/raw"):
        levels = [int(level) for level in re.findall(r"<h(\d)", (await ask(path)).text)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))


async def test_neighbours_of_the_same_session_and_agent_are_linked(ask, ann):
    for session, agent in (("a", None), ("b", None), ("a", "sub"), ("a", None), ("a", "sub")):
        ann.record(session_id=session, agent_id=agent)
    for number, around in ((1, {"next": 4}), (4, {"prev": 1}), (3, {"next": 5}), (2, {})):
        page = re.sub(r"<head>.*</head>", "", (await ask(f"/calls/{number}")).text, flags=re.S)
        links = {
            rel: id_ for id_, rel in re.findall(r'href="/calls/(\d+)" rel="(prev|next)"', page)
        }
        assert links == {rel: str(id_) for rel, id_ in around.items()}, number


async def test_the_page_of_an_empty_row_is_complete(ask, ann):
    unknown = dict.fromkeys(
        ("model", "input_tokens", "output_tokens", "cost_cents", "duration_ms", "status_code")
    )
    unknown |= dict.fromkeys(("cache_creation_input_tokens", "cache_read_input_tokens"))
    ann.record(**unknown, cost_items=(), usage_source="none", outcome="upstream_unreachable")
    page = await ask("/calls/1")
    assert page.status_code == 200
    assert "unreachable" in words(page)
    assert "None" not in words(page)
    cost = await ask("/calls/1/cost")
    assert "has no token counts" in words(cost)
    assert '<a href="/help/costs">' in cost.text


# -- cost --------------------------------------------------------------------------------------------


async def test_the_line_items_add_up(ask, ann):
    items = (
        make_item(
            quantity=1234, rate_usd=Decimal(3), multiplier=Decimal(1), cents=Decimal("0.3702")
        ),
        make_item(component="cache_write_1h", pass_index=1, model="claude-b", cents=Decimal("0.1")),
        make_item(
            component="web_search",
            quantity=2,
            rate_usd=Decimal(10),
            multiplier=Decimal("1.1"),
            cents=Decimal(2),
        ),
    )
    ann.record(cost_items=items, cost_cents=Decimal("2.4702"))
    seen = words(await ask("/calls/1/cost"))
    for text in (
        "Pass 1: claude-sonnet-4-5 Uncached input 1,234 $3.00 / 1M $0.003702",
        "Web searches 2 $10.00 / 1k \N{MULTIPLICATION SIGN} 1.1 $0.02",
        "Pass 2: claude-b Cache writes, 1 hour",
        "Total $0.024702",
        "2 passes",
        "2026-01-01",
    ):
        assert text in seen


async def test_an_unpriced_call_says_what_to_do(ask, ann):
    item = make_item(model="claude-<new>", rate_usd=None, multiplier=None, cents=None)
    ann.record(cost_items=(item,), cost_cents=None, model="claude-<new>")
    seen = words(await ask("/calls/1/cost"))
    assert "No price is known for claude-<new>" in seen
    assert "taximeter reprice" in seen
    assert "Total —" in seen


async def test_a_call_of_which_a_count_is_missing_says_so(ask, ann):
    unknown = {"quantity": 0, "rate_usd": None, "multiplier": None, "cents": None}
    item = make_item(note="count_missing", **unknown)
    ann.record(cost_items=(item, make_item(component="output")), cost_cents=None)
    seen = words(await ask("/calls/1/cost"))
    assert "The response leaves out a token count" in seen
    assert "No price is known" not in seen
    assert "Uncached input The response leaves out this count. — — —" in seen
    assert "Total —" in seen


async def test_a_call_that_was_free_says_why(ask, ann):
    ann.record(cost_items=(), cost_cents=Decimal(0))
    assert "upstream does not bill this call" in words(await ask("/calls/1/cost"))


@pytest.mark.parametrize(
    ("reason", "words_of_it"),
    [
        ("refused_before_output", "Not billed: the model declined before any output."),
        ("declined_hop", "and another one took over."),
        ("failed", "Not billed: the response is an error."),
        ("a word of a newer version", "Not billed."),
    ],
)
async def test_a_line_that_is_not_billed_says_why(ask, ann, reason, words_of_it):
    free = make_item(unbilled_reason=reason, multiplier=Decimal(0), cents=Decimal(0))
    ann.record(cost_items=(free, make_item(pass_index=1)), cost_cents=Decimal("1.25"))
    seen = words(await ask("/calls/1/cost"))
    assert words_of_it in seen
    assert "\N{MULTIPLICATION SIGN} 0" not in seen
    assert seen.count("Not billed") == 1


async def test_a_line_that_is_a_sum_of_passes_says_what_that_means(ask, ann):
    ann.record(cost_items=(make_item(note="sum_of_passes"),), cost_cents=Decimal("1.25"))
    assert "A sum of several passes" in words(await ask("/calls/1/cost"))


ESTIMATES = [
    ("output", None, "Estimated by what was delivered: the response was cut."),
    ("output", "hidden_thinking", "without thinking that is not shown"),
    ("output", "uncounted_tokens", "the prompt of this pass, or advice"),
    ("input", None, "Estimated as the prompt of the model before"),
    ("web_search", None, "Estimated by what was delivered: the response was cut."),
]


async def test_an_estimated_line_says_so_and_so_does_the_total(ask, ann, subtests):
    for component, note, words_of_it in ESTIMATES:
        item = make_item(component=component, estimated=True, note=note)
        n = ann.record(
            cost_items=(item, make_item()),
            cost_cents=Decimal("2.5"),
            estimated_cents=Decimal("1.25"),
            usage_source="estimated",
        )
        with subtests.test(component, note=note):
            seen = words(await ask(f"/calls/{n}/cost"))
            assert seen.count(words_of_it) == 1
            assert "of which estimated $0.0125" in seen
            assert "of which estimated $0.0125 Tokens in" in seen, "beside it"
            details = words(await ask(f"/calls/{n}/details"))
            assert "its output is estimated by what was delivered" in details


async def test_the_costs_of_a_bill_have_as_many_decimals_each(ask, ann):
    items = [make_item(cents=Decimal(cents)) for cents in ("0.03064", "0.063", "100")]
    estimate = {"estimated_cents": Decimal("0.063"), "usage_source": "estimated"}
    ann.record(cost_items=tuple(items), cost_cents=Decimal("100.09364"), **estimate)
    seen = words(await ask("/calls/1/cost"))
    for cost in ("$0.0003064", "$0.0006300", "$1.0000000", "Total $1.0009364"):
        assert cost in seen
    assert "of which estimated $0.0006 Tokens" in seen, "beside it is rounded, as the cost is"


# -- bodies ------------------------------------------------------------------------------------------


async def test_what_is_folded_is_asked_for_when_it_is_opened(ask, ann):
    *_, before, request = agent_requests(8)
    ann.record({"request_body": before}, {"request_body": request}, session_id="s")
    page = await ask("/calls/2")
    assert len(page.text) < 40_000
    for view in ("request/front", "request/messages/1-13"):
        address = f"/traces/usage/2/{view}"
        assert f'data-part="{address}/part"' in page.text
        assert f'href="{address}"' in page.text, "without scripts it is a link"
        part = await ask(f"{address}/part")
        whole = await ask(address)
        assert "<html" not in part.text
        assert "<html" in whole.text
        for answer in (part, whole):
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert "tool_1" in words(answer)


async def test_a_body_too_large_to_show_is_shown_in_part(ask, ann):
    body = b'{"messages": [{"role": "user", "content": "' + b"<" * 5_000_000 + b'"}]}'
    ann.record(request_body=body, response_body=b"x" * 3_000_000)
    for path in ("request/read", "request/raw", "response/read", "response/raw"):
        answer = await ask(f"/traces/usage/1/{path}")
        assert len(answer.text) < 5 * MAX_RAW_BYTES
        assert re.search("more bytes not shown here|more characters", answer.text)
    assert f"{3_000_000 - MAX_RAW_BYTES:,} more bytes" in answer.text


BODIES = [
    b"",
    b"{}",
    REQUEST,
    "grüße".encode() * 100_000,
    b"\xff\xfe\x00",
    bytes(range(256)) * 5_000,
    b"a\0b",
    b"<script>",
]


@pytest.mark.slow
async def test_files_are_the_exact_bytes(ask, ann, subtests):
    for body in BODIES:
        n = ann.record(request_body=body, response_body=body)
        with subtests.test(body[:8], length=len(body)):
            await check_files(ask, n, body)


async def check_files(ask, n, body):
    for side in ("request", "response"):
        answer = await ask(f"/traces/usage/{n}/{side}")
        assert answer.content == body
        assert answer.headers["content-length"] == str(len(body))
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        assert answer.headers["content-type"].startswith(("text/plain", "application/octet-stream"))
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("sandbox")
        assert (await ask(f"/traces/usage/{n}/{side}/read")).status_code == 200
        assert (await ask(f"/traces/usage/{n}/{side}/raw/part")).status_code == 200
    assert (await ask(f"/calls/{n}")).status_code == 200


async def test_a_head_has_the_length_and_no_body(client, ann):
    ann.record(response_body=b"12345")
    answer = await client.head("/traces/usage/1/response", headers=ann.cookie)
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "5", b"")
    assert (await client.head("/calls/1", headers=ann.cookie)).status_code == 200


async def test_a_script_may_download_with_its_key(client, ann):
    ann.record(response_body=ANSWER)
    answer = await client.get("/traces/usage/1/response", headers=ann.bearer)
    assert answer.content == ANSWER


async def test_a_script_is_told_in_json(client, ann):
    ann.record()
    for path in ("1/response", "2/response"):
        answer = await client.get(f"/calls/{path}", headers=ann.bearer)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_a_download_that_is_left_is_closed_and_so_many_may_go_on_at_once(ann, settings):
    body = bytes(3 * CHUNK_BYTES)
    ann.record(response_body=body)
    usage_id = 1
    caller = Caller(user_id="ann", organization_id=ann.path.parent.name, role="owner")
    never = asyncio.Event()

    async def receive():
        return {"type": "http.request"}

    downloads = Downloads(settings)
    with downloads.running():
        sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def send(message):
            await sent.put(message)
            if message.get("body"):
                await never.wait()

        async def download():
            answer = await downloads.respond(usage_id, "response", caller)
            assert answer is not None
            await answer({"type": "http", "method": "GET"}, receive, send)

        slow = [asyncio.create_task(download()) for _ in range(MAX_DOWNLOADS)]
        begun = 0
        while begun < MAX_DOWNLOADS:
            begun += bool((await sent.get()).get("body"))
        refused = await downloads.respond(usage_id, "response", caller)
        assert refused is not None
        assert refused.status_code == 503
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        again = await downloads.respond(usage_id, "response", caller)
        assert again is not None
        assert again.status_code == 200
        received = bytearray()

        async def take(message):
            received.extend(message.get("body", b""))

        await again({"type": "http", "method": "GET"}, receive, take)
        assert received == body
    with closing(sqlite3.connect(ann.path, isolation_level=None)) as db:
        db.execute("pragma journal_mode=delete")  # takes an exclusive lock: nobody else has it open


async def test_no_more_downloads_begin_when_all_are_asked_for_at_the_same_moment(ann, settings):
    usage_id = ann.record(request_body=REQUEST)
    downloads = Downloads(settings)
    caller = Caller(user_id="ann", organization_id=ann.path.parent.name, role="owner")

    async def never_leave():
        await asyncio.Event().wait()

    async def take(_message):
        pass

    with downloads.running():
        asked = [downloads.respond(usage_id, "request", caller) for _ in range(3 * MAX_DOWNLOADS)]
        answers = [answer for answer in await asyncio.gather(*asked) if answer is not None]
        statuses = [answer.status_code for answer in answers]
        assert statuses == [200] * MAX_DOWNLOADS + [503] * 2 * MAX_DOWNLOADS
        for answer in answers[:MAX_DOWNLOADS]:
            await answer({"type": "http", "method": "GET"}, never_leave, take)
        for _ in range(2 * MAX_DOWNLOADS):
            refused = await downloads.respond(9999, "request", caller)
            assert refused is not None
            assert refused.status_code == 404


async def test_bodies_that_were_not_kept_are_said_to_be_so(ask, ann):
    ann.record()
    page = await ask("/calls/1")
    assert "No body was kept" in words(page)
    assert "Send it again" not in page.text
    for path in ("request", "response", "request/read", "response/raw/part"):
        answer = await ask(f"/traces/usage/1/{path}")
        assert (answer.status_code, "not kept" in answer.text) == (404, True)


async def test_bytes_that_are_no_text_are_dumped(ask, ann):
    ann.record(request_body=b"\x89PNG\r\n\x1a\n" + bytes(5000))
    seen = words(await ask("/calls/1"))
    assert "00000000 89 50 4e 47 0d 0a 1a 0a" in seen
    assert ".PNG...." in seen
    assert "2,960 more bytes not shown here" in seen


@pytest.mark.parametrize("streamed", [True, False])
async def test_hostile_text_is_harmless_everywhere(ask, ann, streamed):
    blocks: list[object] = [{"type": "text", "text": EVIL}, {"type": EVIL, EVIL: EVIL}]
    blocks += [{"type": "tool_use", "name": EVIL, "id": EVIL, "input": {EVIL: EVIL}}]
    blocks += [{"type": "image", "source": {"type": "url", "url": f"javascript:{EVIL}"}}]
    request = {
        "messages": [{"role": EVIL, "content": blocks}],
        "system": EVIL,
        "tools": [{"name": EVIL, "description": EVIL, "input_schema": {EVIL: EVIL}}],
        EVIL: EVIL,
    }
    document = {"content": blocks, "stop_reason": EVIL, "model": EVIL, "usage": {EVIL: EVIL}}
    answer = json.dumps(document).encode()
    if streamed:
        error = {"type": "error", "error": {"type": EVIL, "message": EVIL}}
        answer = f"event: error\ndata: {json.dumps(error)}\n\n".encode()
    names = [
        *("slug", "model", "request_model", "session_id", "agent_id", "client", "error_type"),
        *("upstream_request_id", "service_tier", "speed", "inference_geo", "credential_hmac"),
    ]
    ann.record(
        **dict.fromkeys(names, EVIL),
        proxy_endpoint_id=EVIL,
        request_body=json.dumps(request).encode(),
        response_body=answer,
        cost_items=(make_item(model=EVIL, price_version=EVIL),),
    )
    views = [
        f"/{side}/{view}{part}"
        for side in ("request", "response")
        for view in ("read", "raw")
        for part in ("", "/part")
    ]
    for path in ("", *views):
        page = await ask(address_of(1, path))
        assert page.status_code == 200
        assert not re.search(r"<script(?! src=\"/static/)|<img|<pre></pre>", page.text)
        assert not set(page.text) & set("\u202e\x1b\x00")
        assert not re.search(r'(?:href|src)="(?![/#])', page.text), "no address but our own"
        for tag in re.findall(r"<[^>]*>", page.text):
            assert not re.search(r"\son\w+=", re.sub(r'"[^"]*"', '""', tag))


# -- send it again -----------------------------------------------------------------------------------


def resend(body: bytes | None = None, **fields):
    parts = read_parts("http://x/proxy/a", "acme", make_entry(**fields), body, "f.json")
    return make_curl(parts)


def test_a_short_body_is_pasted_and_quoted():
    curl = resend(b'{"a": "it\'s $HOME"}')
    assert curl.startswith("curl http://x/proxy/a/v1/messages \\\n")
    assert '-H "x-api-key: $ANTHROPIC_API_KEY"' in curl
    assert """--data-raw '{"a": "it'"'"'s $HOME"}'""" in curl


@pytest.mark.parametrize(
    "body", [None, b"x" * 5000, b"\xff", b"\x1b[31m", "\u202e".encode(), b"\t"]
)
def test_a_body_that_is_better_not_pasted_comes_from_its_file(body):
    assert "--data-binary @f.json" in resend(body)


def test_the_path_the_version_and_the_betas_are_those_of_the_call():
    curl = resend(
        path_query="/v1/messages?beta=true&n='1", api_version="2026-10-21", betas="a-2025,b-2026"
    )
    command = shlex.split(curl.replace("\\\n", ""))
    assert command[1] == "http://x/proxy/a/v1/messages?beta=true&n='1"
    assert "acme-version: 2026-10-21" in command
    assert "acme-beta: a-2025,b-2026" in command


def test_a_header_that_the_call_did_not_have_is_not_sent():
    curl = resend(path_query="/v1/messages")
    assert "acme-" not in curl


def test_a_call_from_before_paths_were_kept_gets_the_usual_ones():
    curl = resend()
    assert "/proxy/a/v1/messages \\" in curl
    assert "-H 'acme-version: 2023-06-01'" in curl
    assert "acme-beta" not in curl


def test_hostile_headers_of_a_call_stay_one_argument():
    curl = resend(path_query="/v1/messages", betas="'; rm -rf / #\x1b[31m\u202e")
    assert not set(curl.replace("\\\n", "")) & set("\n\x1b\u202e")
    assert len(shlex.split(curl.replace("\\\n", ""))) == len(
        shlex.split(resend(path_query="/v1/messages", betas="a").replace("\\\n", ""))
    )


async def test_the_command_is_on_the_page(ask, ann):
    ann.record(request_body=REQUEST, slug="team-a", path_query="/v1/messages?beta=true", betas="x")
    page = await ask("/calls/1/raw")
    assert f"curl '{BASE_URL}/proxy/team-a/v1/messages?beta=true'" in words(page)
    assert "anthropic-beta: x" in words(page)
    assert "data-copy=" in page.text


# -- what goes wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/request", "/response/read", "/request/raw/part"])
async def test_an_unknown_call_is_told_on_a_page(ask, ann, path):
    ann.record()
    for number in ("2", "0", "9" * 18):
        answer = await ask(address_of(number, path))
        assert answer.status_code == 404
        assert ("This call does not exist" if path else "There is no call") in answer.text


async def test_a_call_that_is_not_there_says_which_is_the_newest(ask, ann):
    ann.record()
    ann.record()
    page = await ask("/calls/99812")
    assert "There is no call 99,812. The newest is 2." in words(page)
    assert '<a href="/calls">Calls</a>' in page.text


async def test_before_the_first_call_nothing_is_there(ask):
    for path in ("", "/request", "/request/read"):
        answer = await ask(address_of(1, path))
        assert answer.status_code == 404
        assert "Nothing has been recorded yet" in answer.text


@pytest.mark.parametrize("path", ["", "/request", "/response", "/request/read", "/response/raw"])
async def test_a_broken_database_is_told_without_its_path(ask, ann, settings, path):
    ann.record(request_body=REQUEST, response_body=ANSWER)
    for name in (ann.path, *ann.path.parent.glob("traces.db-*")):
        name.write_bytes(b"no database" * 1000)
    answer = await ask(address_of(1, path))
    assert answer.status_code == 503
    assert str(settings.data_dir) not in answer.text
    assert "Traceback" not in answer.text


async def test_a_body_with_a_missing_piece_is_told(ask, ann):
    ann.record(request_body=REQUEST)
    with closing(sqlite3.connect(ann.path)) as db, db:
        db.execute("delete from pieces")
    for path in ("", "/request", "/request/read"):
        assert (await ask(address_of(1, path))).status_code == 503


async def test_however_many_pages_are_opened_few_files_stay_open(ask, ann):
    ann.record(request_body=REQUEST, response_body=b"x" * 2_000_000)
    for _ in range(rounds := 6):
        for path in ("", "/request", "/response", "/response/read", "/response/raw/part", "/no"):
            await ask(address_of(1, path))
    opened = [file.path for file in psutil.Process().open_files()]
    # The connection for the next page, and descriptors that SQLite has for the next ones to be opened:
    # to close them would drop the locks of that connection.
    assert opened.count(str(ann.path)) < rounds


async def test_one_organisation_asks_for_so_much_at_once(client, ann, cid, query_server):
    ann.record()
    ann.record()
    cid.record()
    go_on = query_server.hold("/calls/2")
    slow = [
        asyncio.create_task(client.get("/calls/2", headers=ann.cookie))
        for _ in range(MAX_WAITING + 1)
    ]
    (refused,), _ = await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED)
    assert refused.result().status_code == 503
    other = await client.get("/calls/1", headers=cid.cookie)
    assert other.status_code == 200, "others do not wait"
    go_on()
    await asyncio.gather(*slow)
    assert [task.result().status_code for task in slow].count(200) == MAX_WAITING


PAYERS = [
    ("subscription", False, "a subscription"),
    ("subscription", None, "a subscription"),
    ("subscription", True, None),
    ("customer", None, "a customer"),
    ("customer", True, "a customer"),
    ("api_key", None, None),
]


async def test_a_cost_that_somebody_else_covers_is_called_a_value(ask, ann, subtests):
    for billing, overage, payer in PAYERS:
        with subtests.test(billing, overage=overage):
            n = ann.record(cost_items=(make_item(),), billing=billing, overage=overage)
            seen = words(await ask(f"/calls/{n}/cost"))
            assert ("its value by list prices, and no bill" in seen) is (payer is not None)
            assert ("Covered by a" in seen) is (payer is not None)
            assert f"Covered by {payer}" in seen or payer is None


async def test_a_bill_says_that_the_hours_of_a_container_are_not_in_it(ask, ann):
    ann.record(
        {"container_id": "container_1"},
        {"container_unnamed": True, "outcome": "client_disconnected"},
        {"container_id": "container_1", "free_containers": True},
        {"container_unnamed": True, "free_containers": True},
        {},
    )
    said = "Its hours may be billed, and no response counts them: they are not in the cost."
    pages = [words(await ask(f"/calls/{number}/cost")) for number in range(1, 6)]
    assert [said in page for page in pages] == [True, True, False, False, False]
    pages = [words(await ask(f"/calls/{number}/details")) for number in range(1, 6)]
    unnamed = ["Container not named: the response was cut" in page for page in pages]
    assert unnamed == [False, True, False, True, False]
