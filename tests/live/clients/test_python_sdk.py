"""The Python SDK: what callers get, and what entries say. What it sends is one, synchronous or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from store.budget_file import BudgetFile
from tests.lazily import import_lazily
from tests.live.clients.checks import (
    CALL,
    QUESTION,
    REPLY,
    SOON,
    TARGET,
    TOOLS,
    assert_bodies,
    assert_entry,
    assert_is,
    assert_left_early,
    base_url,
    either_way,
    result_of,
    rows_in_order,
)
from tests.live.messages import (
    API_HEADERS,
    MODEL,
    REQUEST_ID,
    Answer,
    Counts,
    error,
    text,
    token_count,
)
from tests.live.service import API_KEY, Endpoint, Row
from tests.rawclient import TIMEOUT_S
from tests.upstream import Gate, Script, SeenRequest

if TYPE_CHECKING:
    import anthropic
    from anthropic.types import Message
else:
    anthropic = import_lazily("anthropic")  # which takes more than a second


PRODUCT = "Anthropic/Python"

type MakeSdk = Callable[..., anthropic.Anthropic]


@pytest.fixture
def make_sdk() -> Iterator[MakeSdk]:
    """Makes clients: `make_sdk(endpoint, max_retries=2)`. None retries unless told to."""
    with ExitStack() as stack:

        def make(endpoint: Endpoint, max_retries: int = 0) -> anthropic.Anthropic:
            return stack.enter_context(
                anthropic.Anthropic(
                    base_url=base_url(endpoint), api_key=API_KEY, max_retries=max_retries
                )
            )

        yield make


@pytest.fixture
def sdk(make_sdk: MakeSdk, endpoint: Endpoint) -> anthropic.Anthropic:
    return make_sdk(endpoint)


def create(sdk: anthropic.Anthropic, *, streamed: bool, **params: Any) -> Message:
    if not streamed:
        message: Message = sdk.messages.create(**params)
        return message
    with sdk.messages.stream(**params) as stream:
        return stream.get_final_message()


def ask(sdk: anthropic.Anthropic, *, streamed: bool, **params: Any) -> dict[str, Any]:
    """Ask, and give the message that came back as a plain document."""
    return create(sdk, streamed=streamed, **params).to_dict()


@either_way
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_an_answer_is_what_the_upstream_said(
    endpoint: Endpoint, sdk: anthropic.Anthropic, streamed: bool, compressed: bool
) -> None:
    endpoint.upstream.enqueue(REPLY.script(streamed=streamed, compressed=compressed))
    assert_is(ask(sdk, streamed=streamed, **QUESTION), REPLY)
    [seen] = endpoint.upstream.requests
    asked = QUESTION | ({"stream": True} if streamed else {})
    assert (seen.target, json.loads(seen.body)) == (TARGET, asked)
    row = endpoint.row()
    assert_entry(row, REPLY, streamed=streamed, client=PRODUCT)
    assert_bodies([row], [seen])
    assert row["retry_count"] == 0


def test_what_the_sdk_sent_is_what_arrives(endpoint: Endpoint, sdk: anthropic.Anthropic) -> None:
    endpoint.upstream.enqueue(REPLY.script(streamed=False))
    raw = sdk.messages.with_raw_response.create(**QUESTION)
    sent = raw.http_request
    [seen] = endpoint.upstream.requests
    assert bytes(seen.body) == sent.content
    between_hops = {"host", "connection"}
    arrived = {name.lower(): value for name, value in seen.headers}
    assert {name: arrived[name] for name in arrived.keys() - between_hops} == {
        name: sent.headers[name] for name in sent.headers.keys() - between_hops
    }
    assert dict(API_HEADERS).items() <= raw.headers.items()


@either_way
def test_a_tool_is_called_and_its_result_answered(
    endpoint: Endpoint, sdk: anthropic.Anthropic, streamed: bool
) -> None:
    turns = [CALL, REPLY]
    endpoint.upstream.enqueue(*(turn.script(streamed=streamed) for turn in turns))
    asked = ask(sdk, streamed=streamed, **QUESTION, tools=TOOLS)
    assert_is(asked, CALL)
    history = [
        *QUESTION["messages"],
        {"role": "assistant", "content": asked["content"]},
        {"role": "user", "content": [result_of(asked["content"][-1])]},
    ]
    answered = ask(sdk, streamed=streamed, **QUESTION | {"messages": history}, tools=TOOLS)
    assert_is(answered, REPLY)
    _first, second = seen = endpoint.upstream.requests
    assert json.loads(second.body)["messages"] == history
    rows = rows_in_order(endpoint)
    for row, turn in zip(rows, turns, strict=True):
        assert_entry(row, turn, streamed=streamed, client=PRODUCT)
    assert_bodies(rows, seen)


def test_a_budget_that_is_used_up_refuses_the_next_call_at_once(
    live: Endpoint, make_sdk: MakeSdk
) -> None:
    """The SDK does not repeat it, although it may repeat other calls twice."""
    sdk = make_sdk(live, max_retries=2)
    endpoint_id = live.service.set_budget(live.slug, limit_usd=0.000_001)
    live.upstream.enqueue(REPLY.script(streamed=False))
    sdk.messages.create(**QUESTION)
    assert live.row()["cost_cents"] > 0.0001

    listed = BudgetFile(live.service.data_dir)
    live.service.wait_until(
        lambda: endpoint_id in {each.subject_id for each in listed.read()},
        "a budget that is used up",
    )
    for streamed in (False, True):
        live.upstream.otherwise = REPLY.script(streamed=streamed)
        refused = refuse(live, partial(create, sdk, streamed=streamed))
        assert json.loads(refused.response.content)["error"]["type"] == "billing_error"
        assert refused.response.headers["x-taximeter-error"] == "budget_reached"
        assert 0 < int(refused.response.headers["retry-after"]) <= 24 * 3600
        assert refused.response.request.headers["x-stainless-retry-count"] == "0"
    for spend in list_other_spending(sdk):
        with pytest.raises(anthropic.RateLimitError) as caught:
            spend()
        assert caught.value.type == "billing_error"
        assert caught.value.response.request.headers["x-stainless-retry-count"] == "0"
    live.upstream.enqueue(token_count(7))
    counted = sdk.messages.count_tokens(model=MODEL, messages=QUESTION["messages"])
    assert counted.input_tokens == 7
    assert len(live.rows()) == len(live.upstream.requests) - 1  # nothing refused was forwarded


def list_other_spending(sdk: anthropic.Anthropic) -> list[Callable[[], object]]:
    """List calls of all kinds that spend money and are no messages."""
    message: Any = {"type": "user.message", "content": [{"type": "text", "text": "Go on"}]}
    deployments, sessions = sdk.beta.deployments, sdk.beta.sessions
    new: dict[str, Any] = {"agent": "agent_1", "environment_id": "env_1"}
    return [
        partial(sdk.messages.batches.create, requests=[]),
        partial(sessions.create, **new),
        partial(sessions.update, "sesn_1", title="x"),
        partial(sessions.events.send, "sesn_1", events=[message]),
        partial(deployments.create, name="x", initial_events=[message], **new),
        partial(deployments.update, "depl_1", name="x"),
        partial(deployments.run, "depl_1"),
        partial(deployments.unpause, "depl_1"),
        partial(sdk.beta.dreams.create, inputs=[], model=MODEL),
    ]


def refuse(endpoint: Endpoint, call: Callable[..., object]) -> anthropic.RateLimitError:
    """Make calls until one is refused; each worker knows within a quarter of a second."""
    refusals: list[anthropic.RateLimitError] = []

    def is_refused() -> bool:
        try:
            call(**QUESTION)
        except anthropic.RateLimitError as refused:
            refusals.append(refused)
        return bool(refusals)

    endpoint.service.wait_until(is_refused, "a refusal")
    return refusals[0]


ERRORS = [
    (400, "invalid_request_error", "BadRequestError"),
    (401, "authentication_error", "AuthenticationError"),
    (413, "request_too_large", "ContentTooLargeError"),
    (429, "rate_limit_error", "RateLimitError"),
    (500, "api_error", "InternalServerError"),
    (529, "overloaded_error", "OverloadedError"),
]
"""The errors of the API: the status, the type in the body, and what the SDK makes of it."""


def test_errors_are_raised_as_what_they_are(
    endpoint: Endpoint, sdk: anthropic.Anthropic, subtests: pytest.Subtests
) -> None:
    cases = [(*each, streamed) for each in ERRORS for streamed in (False, True)]
    for status, kind, expected, streamed in cases:
        with subtests.test(kind, streamed=streamed):
            endpoint.upstream.enqueue(error(status, kind, [("retry-after", "7")]))
            with pytest.raises(getattr(anthropic, expected)) as raised:
                ask(sdk, streamed=streamed, **QUESTION)
            assert (raised.value.status_code, raised.value.type) == (status, kind)
            assert raised.value.request_id == REQUEST_ID
            assert raised.value.response.headers["retry-after"] == "7"
    assert len(endpoint.upstream.requests) == len(cases), "none of them was sent again"
    for row, (status, kind, _, _) in zip(rows_in_order(endpoint), cases, strict=True):
        assert (row["status_code"], row["outcome"]) == (status, "upstream_error")
        assert (row["error_type"], row["upstream_request_id"]) == (kind, REQUEST_ID)
        assert (row["request_model"], row["cost_cents"]) == (MODEL, 0)


def test_a_large_request_that_is_refused_is_raised_as_what_it_is(
    live: Endpoint, make_sdk: MakeSdk
) -> None:
    """It is answered while the client is still sending."""
    nowhere = replace(live, slug="nobody")
    sdk = make_sdk(nowhere)
    large = QUESTION | {"messages": [{"role": "user", "content": "x" * 20_000_000}]}
    for _ in range(2):
        with pytest.raises(anthropic.NotFoundError) as raised:
            sdk.messages.create(**large)
        assert "nobody" in str(raised.value)


@either_way
def test_each_retry_is_an_entry(endpoint: Endpoint, make_sdk: MakeSdk, streamed: bool) -> None:
    endpoint.upstream.enqueue(
        error(529, "overloaded_error", [SOON]),
        error(429, "rate_limit_error", [SOON]),
        REPLY.script(streamed=streamed),
    )
    sdk = make_sdk(endpoint, max_retries=2)
    assert_is(ask(sdk, streamed=streamed, **QUESTION), REPLY)
    rows = rows_in_order(endpoint)
    assert [(row["retry_count"], row["status_code"], row["outcome"]) for row in rows] == [
        (0, 529, "upstream_error"),
        (1, 429, "upstream_error"),
        (2, 200, "complete"),
    ]
    assert_bodies(rows, endpoint.upstream.requests)
    assert_entry(rows[-1], REPLY, streamed=streamed, client=PRODUCT)


def test_a_stream_that_is_left_early_is_an_entry(live: Endpoint, make_sdk: MakeSdk) -> None:
    gate = Gate()
    live.upstream.enqueue(REPLY.held_after_text(gate))
    with make_sdk(live).messages.stream(**QUESTION) as stream:
        assert REPLY.text.startswith(next(iter(stream.text_stream)))
    assert live.upstream.requests[0].abandoned.wait(TIMEOUT_S)
    assert_left_early(live.row())


CALLS = 24


async def test_calls_at_once_do_not_mix(endpoint: Endpoint) -> None:
    def reply(number: int) -> Answer:
        counts = Counts(input=1000 + number, output=2000 + number)
        return Answer(content=[text(f"answer {number}")], counts=counts)

    def choose(seen: SeenRequest) -> Script:
        number = int(seen.header("anthropic-test-number") or "")
        return reply(number).script(streamed=number % 2 == 1, compressed=number % 3 == 1)

    async def call(client: anthropic.AsyncAnthropic, number: int) -> str:
        question = QUESTION | {"messages": [{"role": "user", "content": f"question {number}"}]}
        headers = {"anthropic-test-number": str(number)}
        if number % 2 == 0:
            message = await client.messages.create(**question, extra_headers=headers)
        else:
            async with client.messages.stream(**question, extra_headers=headers) as stream:
                message = await stream.get_final_message()
        return "".join(block.text for block in message.content if block.type == "text")

    endpoint.upstream.choose = choose
    async with anthropic.AsyncAnthropic(base_url=base_url(endpoint), api_key=API_KEY) as client:
        texts = await asyncio.gather(*(call(client, number) for number in range(CALLS)))
    assert texts == [reply(number).text for number in range(CALLS)]
    rows = await asyncio.to_thread(endpoint.rows)
    logged = {_question_of(row): (row["input_tokens"], row["output_tokens"]) for row in rows}
    assert logged == {f"question {n}": (1000 + n, 2000 + n) for n in range(CALLS)}
    assert len(rows) == CALLS
    assert all(row["client"].startswith("AsyncAnthropic/Python") for row in rows)


def _question_of(row: Row) -> str:
    question: str = json.loads(row["request_body"])["messages"][0]["content"]
    return question


def test_user_project_and_tags_are_kept_and_the_upstream_never_sees_them(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "ANTHROPIC_CUSTOM_HEADERS",
        "x-taximeter-user: ann@example.com\nx-taximeter-tags: Env:Dev, b",
    )
    headers = {"x-taximeter-project": "shop/checkout"}
    with anthropic.Anthropic(
        base_url=base_url(endpoint), api_key=API_KEY, max_retries=0, default_headers=headers
    ) as sdk:
        for extra in ({}, {"x-taximeter-user": "two words", "x-taximeter-tags": "a,,user:ann"}):
            endpoint.upstream.enqueue(REPLY.script(streamed=False))
            sdk.messages.create(**QUESTION, extra_headers=extra)
    for seen in endpoint.upstream.requests:
        assert not [name for name, _ in seen.headers if "taximeter" in name.lower()]
        assert b"ann@example.com" not in seen.body
    first, second = rows_in_order(endpoint)
    names = ("attributed_user", "project", "tags", "attributes_left_out")
    assert [first[name] for name in names] == [
        "ann@example.com", "shop/checkout", '["b","env:dev"]', None,
    ]  # fmt: skip
    assert [second[name] for name in names] == [None, "shop/checkout", '["a"]', 2]
