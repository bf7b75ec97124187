"""The sending of responses to clients that read slowly, or not at all."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.responses import Response
from starlette.types import Message

from dashboard import slow_readers
from dashboard.slow_readers import (
    PART_BYTES,
    CutError,
    PacedResponse,
    SlowReaders,
    UnreadResponses,
)

START: Message = {"type": "http.response.start", "status": 200, "headers": []}
MEBI = 1 << 20


def body(size: int, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": bytes(size), "more_body": more}


class Client:
    """A client that takes so many parts, and then none until it goes on."""

    def __init__(self, takes: int = 0) -> None:
        self.takes = takes
        self.parts: list[Message] = []
        self.goes_on = asyncio.Event()

    async def send(self, message: Message) -> None:
        if len(self.parts) >= self.takes:
            await self.goes_on.wait()
        self.parts.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.parts)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


async def test_a_large_body_is_sent_in_parts():
    client = Client(100)
    response = PacedResponse(client.send, UnreadResponses())
    await response.send(START)
    await response.send(body(PART_BYTES * 2 + 1, more=True))
    await response.send(body(PART_BYTES * 2))
    sizes = [len(each["body"]) for each in client.parts[1:]]
    assert sizes == [PART_BYTES, PART_BYTES, 1, PART_BYTES, PART_BYTES]
    assert [each["more_body"] for each in client.parts[1:]] == [True, True, True, True, False]


async def test_who_takes_nothing_is_cut(monkeypatch):
    monkeypatch.setattr(slow_readers, "NO_PROGRESS_S", 0.01)
    client = Client(2)
    response = PacedResponse(client.send, UnreadResponses())
    with pytest.raises(CutError, match="did not read on"):
        await response.send(body(MEBI))
    assert len(client.parts) == 2
    with pytest.raises(CutError):
        await response.send(body(1))


async def test_who_takes_little_is_cut():
    now_s, sent = 0.0, 0

    async def take_slowly(_message: Message) -> None:
        nonlocal now_s, sent
        for _ in range(3):
            await asyncio.sleep(0)
        now_s += 3.0  # of 64 KB, for which there are 2 s
        sent += 1

    response = PacedResponse(take_slowly, UnreadResponses(), "", lambda: now_s)
    with pytest.raises(CutError, match="too slowly"):
        await response.send(body(100 * PART_BYTES))
    assert 10 < sent < 20


async def test_a_response_that_is_made_slowly_is_not_cut():
    now_s = 0.0
    client = Client(200)
    response = PacedResponse(client.send, UnreadResponses(), "", lambda: now_s)
    for _ in range(100):
        now_s += 1000.0
        await response.send(body(10, more=True))
    assert len(client.parts) == 100


async def start_unread(unread: UnreadResponses, *addresses: str) -> list[asyncio.Task[None]]:
    """Return the sendings of a response of 1 MB to each of these, of which none reads."""
    tasks = []
    for address in addresses:
        client = Client()
        response = PacedResponse(client.send, unread, address)
        tasks.append(asyncio.create_task(response.send(body(MEBI))))
        await until(lambda: len(unread._held) >= sum(not each.done() for each in tasks))
    return tasks


async def test_of_too_much_that_is_unread_a_response_of_who_has_most_is_cut(monkeypatch):
    monkeypatch.setattr(slow_readers, "MAX_UNREAD_BYTES", 4 * MEBI)
    unread = UnreadResponses()
    others = await start_unread(unread, "b", "c")
    tasks = await start_unread(unread, "a", "a", "a", "a")
    await until(lambda: sum(each.done() for each in tasks) == 2)
    assert not any(each.done() for each in others)
    for each in tasks:
        if each.done():
            with pytest.raises(CutError, match="too much is unread"):
                each.result()
        each.cancel()
    for each in others:
        each.cancel()
    await asyncio.gather(*tasks, *others, return_exceptions=True)
    assert unread._held == {}


async def test_one_response_may_be_larger_than_all_may_be(monkeypatch):
    monkeypatch.setattr(slow_readers, "MAX_UNREAD_BYTES", MEBI)
    client = Client(1000)
    await PacedResponse(client.send, UnreadResponses()).send(body(2 * MEBI))
    assert len(client.body) == 2 * MEBI


async def test_a_response_that_is_cut_is_left_unfinished(monkeypatch, caplog):
    monkeypatch.setattr(slow_readers, "NO_PROGRESS_S", 0.01)
    client = Client(3)

    async def receive() -> Message:
        return {"type": "http.request"}

    app: Callable[..., Awaitable[None]] = SlowReaders(Response(bytes(MEBI)))
    await app({"type": "http", "method": "GET", "client": ("192.0.2.7", 1)}, receive, client.send)
    assert [each.get("more_body") for each in client.parts] == [None, True, True]
    assert "A response to 192.0.2.7 was cut" in caplog.text
