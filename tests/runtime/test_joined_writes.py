"""Joined writes: data that a protocol writes in one step of the event loop, sent at once."""

import asyncio

import pytest

from runtime import joined_writes
from runtime.joined_writes import MAX_HELD_BYTES, JoinedWrites


class Sent(asyncio.Transport):
    """A transport that notes what it is told."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.unread_bytes = 0

    def write(self, data):
        self.calls.append(bytes(data))

    def close(self):
        self.calls.append("closed")

    def is_closing(self):
        return "closed" in self.calls

    def get_write_buffer_size(self):
        return self.unread_bytes

    def abort(self):
        self.calls.append("aborted")


@pytest.fixture
def sent():
    return Sent()


async def test_head_and_body_are_sent_together_in_their_order(sent):
    transport = JoinedWrites(sent)
    for part in (b"head", b"body", b"end"):
        transport.write(part)
    assert sent.calls == []
    await asyncio.sleep(0)
    transport.write(b"next")
    await asyncio.sleep(0)
    assert sent.calls == [b"headbodyend", b"next"]


async def test_more_than_a_little_is_not_held(sent):
    transport = JoinedWrites(sent)
    transport.write(b"head")
    transport.write(b"x" * MAX_HELD_BYTES)
    assert sent.calls == [b"head" + b"x" * MAX_HELD_BYTES], "so that its protocol can be paused"
    await asyncio.sleep(0)
    assert len(sent.calls) == 1


async def test_what_is_held_is_sent_before_the_end(sent):
    transport = JoinedWrites(sent)
    transport.write(b"last")
    transport.close()
    assert sent.calls == [b"last", "closed"]
    assert transport.is_closing()
    await asyncio.sleep(0)
    assert sent.calls == [b"last", "closed"]


@pytest.mark.parametrize(("unread_bytes", "end"), [(0, ["closed"]), (1, ["closed", "aborted"])])
async def test_what_the_other_end_does_not_take_is_thrown_away(
    sent, monkeypatch, unread_bytes, end
):
    monkeypatch.setattr(joined_writes, "LINGER_S", 0.0)
    sent.unread_bytes = unread_bytes
    JoinedWrites(sent).close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert sent.calls == end
