"""`tool_runner()` of the SDKs, which sends message threads: what callers get, and what entries say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.lazily import import_lazily
from tests.live.clients.checks import assert_bodies, base_url, either_way, read_whole, rows_in_order
from tests.live.clients.programs import needs_typescript_sdk
from tests.live.clients.test_typescript_sdk import TypeScript, typescript as typescript
from tests.live.message_threads import BETA, Reply, ThreadUpstream, Turn
from tests.live.messages import MODEL, text, tool_use
from tests.live.service import API_KEY, Endpoint, Row
from tests.upstream import Gate

if TYPE_CHECKING:
    import anthropic
    import httpx2
else:
    anthropic = import_lazily("anthropic")  # which takes more than a second
    httpx2 = import_lazily("httpx2")

type Sdk = Any  # whose overloads take no fields from a dict

LONG = "All that is known about fares is written here. " * 400  # some 4,700 tokens
DONE = Reply(content=[text("It is 12 €.")])
CREATE, CONTINUE = "create", "continue"


def calls(endpoint: Endpoint, *numbers: int) -> Reply:
    """Return a reply that asks for so many fares."""
    asked = [
        tool_use("get_fare", {"to": f"stop {number}"}, block_id=f"toolu_{endpoint.slug}_{number}")
        for number in numbers
    ]
    return Reply(content=[text("Let me look."), *asked])


class Wire:
    """Collects what the SDK sends, and the errors that it is given."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.errors: list[bytes] = []

    def hooks(self) -> dict[str, list[Callable[..., None]]]:
        return {"request": [self._send], "response": [self._receive]}

    def _send(self, request: Any) -> None:
        self.sent.append(request.content)

    def _receive(self, response: Any) -> None:
        if response.status_code != 200:
            self.errors.append(response.read())


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def sdk(live: Endpoint, wire: Wire) -> Iterator[Sdk]:
    client = anthropic.DefaultHttpxClient(event_hooks=wire.hooks())
    with anthropic.Anthropic(
        base_url=base_url(live), api_key=API_KEY, max_retries=0, http_client=client
    ) as sdk:
        yield sdk


def script(endpoint: Endpoint, *replies: Reply) -> ThreadUpstream:
    """Let the upstream of an endpoint hold threads, and its model say this."""
    threads = ThreadUpstream(replies, endpoint.slug)
    endpoint.upstream.choose = threads.respond
    return threads


def words(endpoint: Endpoint) -> str:
    """Return words with which no other conversation begins."""
    return f"What is the fare to Châtelet, for {endpoint.slug}?"


def question(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "model": MODEL,
        "max_tokens": 1024,
        "system": LONG,
        "cache_control": {"type": "ephemeral"},
        "messages": [{"role": "user", "content": words(endpoint)}],
    }


def make_tool(on_call: Callable[[str], None] = lambda _to: None) -> Any:
    def get_fare(to: str) -> str:
        """Get the fare to a place."""
        on_call(to)
        return f"12 € to {to}"

    return anthropic.beta_tool(get_fare)


def assert_recorded(
    endpoint: Endpoint,
    wire: Wire,
    threads: ThreadUpstream,
    expected: Sequence[tuple[Any, ...]],
    titles: Sequence[str] = (),
) -> list[Row]:
    """Assert what is recorded of one conversation, and that all that was sent and refused was passed on
    unchanged. ``expected`` has of each call the step of its thread, its status and the number of the call
    that it continues, ``titles`` those of the last calls where they are not of the first words."""
    seen = endpoint.upstream.requests
    assert wire.sent == [bytes(each.body) for each in seen]
    assert wire.errors == threads.errors
    rows = rows_in_order(endpoint)
    assert_bodies(rows, seen)
    numbers = {row["id"]: number for number, row in enumerate(rows, 1)}
    assert [
        (row["thread"], row["status_code"], numbers.get(row["previous_id"])) for row in rows
    ] == list(expected)
    assert len({row["session"] for row in rows}) == 1
    assert [row["title_text"] for row in rows] == [words(endpoint)] * (len(rows) - len(titles)) + [
        *titles
    ]
    assert_billed(endpoint, rows, threads.turns)
    assert_shown(endpoint, rows)
    return rows


def assert_billed(endpoint: Endpoint, rows: Sequence[Row], turns: Sequence[Turn]) -> None:
    """Each answer has its cost, and the whole request is what the model was given."""
    answered = [row for row in rows if row["status_code"] == 200]
    for row, turn in zip(answered, turns, strict=True):
        assert row["message_id"] == turn.answer.message_id
        if row["usage_source"] == "final":
            assert row["cost_cents"] == pytest.approx(turn.answer.counts.cost_cents)
        document = json.loads(read_whole(endpoint, row).body)
        assert document["messages"] == turn.whole["messages"]
        assert (row["message_count"], row["tool_count"]) == (len(turn.whole["messages"]), 1)


def assert_shown(endpoint: Endpoint, rows: Sequence[Row]) -> None:
    """The session has its calls in order, their costs, and the title of the first."""
    service = endpoint.service
    key = [("Authorization", f"Bearer {service.create_key('threads')}")]
    answered = service.get_page(f"/sessions/{rows[0]['session']}.json", key)
    shown = json.loads(answered.body)
    assert (shown["title"], shown["calls"], shown["cache_breaks"]) == (
        words(endpoint),
        len(rows),
        [],
    )
    assert [turn["entry_id"] for turn in shown["turns"]] == [row["entry_id"] for row in rows]
    assert shown["cost_cents"] == pytest.approx(sum(row["cost_cents"] for row in rows))


@either_way
def test_a_run_is_one_session(live: Endpoint, sdk: Sdk, wire: Wire, streamed: bool) -> None:
    threads = script(live, calls(live, 1), calls(live, 2, 3), DONE)
    runner = sdk.beta.messages.tool_runner(**question(live), tools=[make_tool()], stream=streamed)
    last = runner.until_done()
    assert last.content[0].text == "It is 12 €."
    rows = assert_recorded(
        live,
        wire,
        threads,
        [(CREATE, 200, None), (CONTINUE, 200, 1), (CONTINUE, 200, 2)],
    )
    second = json.loads(wire.sent[1])
    assert second["thread"] == {"type": CONTINUE, "previous_message_id": rows[0]["message_id"]}
    assert [row["cache_read_input_tokens"] > 4_000 for row in rows] == [False, True, True]


def test_a_thread_that_expired_is_sent_again_and_goes_on(
    live: Endpoint, sdk: Sdk, wire: Wire
) -> None:
    """The whole conversation follows the last call of the old thread, not its first."""
    threads = script(live, calls(live, 1), calls(live, 2), calls(live, 3), DONE)
    tool = make_tool(lambda to: threads.expire() if to == "stop 2" else None)
    sdk.beta.messages.tool_runner(**question(live), tools=[tool]).until_done()
    assert_recorded(
        live,
        wire,
        threads,
        [
            (CREATE, 200, None),
            (CONTINUE, 200, 1),
            (CONTINUE, 404, 2),
            (CREATE, 200, 2),
            (CONTINUE, 200, 4),
        ],
    )
    assert b'"thread_not_found"' in wire.errors[0]


def test_a_fork_is_a_thread_of_its_own(live: Endpoint, sdk: Sdk, wire: Wire) -> None:
    threads = script(live, calls(live, 1), DONE, DONE, calls(live, 2), DONE)
    thread = sdk.beta.messages.thread(**question(live), tools=[make_tool()])
    thread.tool_runner().until_done()
    fork = thread.fork()
    thread.send({"role": "user", "content": "And back?"})
    fork.append({"role": "user", "content": "And to Nation?"})
    fork.tool_runner().until_done()
    assert_recorded(
        live,
        wire,
        threads,
        [
            (CREATE, 200, None),
            (CONTINUE, 200, 1),
            (CONTINUE, 200, 2),
            (CREATE, 200, 2),
            (CONTINUE, 200, 4),
        ],
        titles=["And back?", "And to Nation?", "And to Nation?"],
    )


def test_a_turn_of_a_fallback_model_is_followed_by_a_new_thread(
    live: Endpoint, sdk: Sdk, wire: Wire
) -> None:
    stored_nowhere = Reply(content=calls(live, 2).content, is_of_fallback=True)
    threads = script(live, calls(live, 1), stored_nowhere, DONE)
    sdk.beta.messages.tool_runner(**question(live), tools=[make_tool()]).until_done()
    assert_recorded(
        live, wire, threads, [(CREATE, 200, None), (CONTINUE, 200, 1), (CREATE, 200, 2)]
    )


def test_a_turn_that_was_cut_is_sent_again_in_a_new_thread(
    live: Endpoint, sdk: Sdk, wire: Wire
) -> None:
    threads = script(live, calls(live, 1), Reply(content=calls(live, 2).content, is_cut=True), DONE)
    thread = sdk.beta.messages.thread(**question(live), tools=[make_tool()])
    with pytest.raises(httpx2.RemoteProtocolError):
        thread.tool_runner(stream=True).until_done()
    thread.tool_runner(stream=True).until_done()
    assert_recorded(
        live, wire, threads, [(CREATE, 200, None), (CONTINUE, 200, 1), (CREATE, 200, 2)]
    )


@contextmanager
def refuses(code: str) -> Iterator[None]:
    """Expects that the SDK raises the error with this code."""
    with pytest.raises(anthropic.BadRequestError) as raised:
        yield
    assert raised.value.error_code == code


def test_refusals_of_a_continue_reach_the_caller_unchanged(
    live: Endpoint, sdk: Sdk, wire: Wire
) -> None:
    gate, asked = Gate(), question(live)
    threads = script(live, DONE, Reply(content=DONE.content, before_end=gate), DONE)
    first = sdk.beta.messages.create(**asked, thread={"type": CREATE}, betas=[BETA])

    def go_on(**changes: Any) -> Any:
        step = {"type": CONTINUE, "previous_message_id": first.id}
        body = {name: asked[name] for name in ("model", "max_tokens", "messages")} | changes
        return sdk.beta.messages.create(**body, thread=step, betas=[BETA])

    with refuses("thread_fingerprint_mismatch"):
        go_on(system="Be long.")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(go_on)
        gate.wait_reached()
        with refuses("thread_continue_in_flight"):
            go_on()
        gate.open()
        assert running.result().id != first.id
    with refuses("thread_already_continued"):
        go_on()
    assert wire.errors == threads.errors
    rows = rows_in_order(live)
    assert sorted(row["status_code"] for row in rows) == [200, 200, 400, 400, 400]
    assert {row["previous_id"] for row in rows[1:]} == {rows[0]["id"]}
    assert len({row["session"] for row in rows}) == 1


@needs_typescript_sdk
def test_typescript_a_run_is_one_session(live: Endpoint, typescript: TypeScript) -> None:
    threads = script(live, calls(live, 1), calls(live, 2), DONE)
    assert typescript.result(live, "toolRunner")["content"] == list(DONE.content)
    rows = rows_in_order(live)
    assert [(row["thread"], row["previous_id"]) for row in rows] == [
        (CREATE, None),
        (CONTINUE, rows[0]["id"]),
        (CONTINUE, rows[1]["id"]),
    ]
    assert len({row["session"] for row in rows}) == 1
    assert_billed(live, rows, threads.turns)
