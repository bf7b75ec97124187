"""What the relay does with time, tried without processes."""

import asyncio

import pytest

from dashboard.queries.client import Connection, Head
from dashboard.queries.relay import _Body, _CutError
from tests.queries.pool import Client, make_query


class Endless(Connection):
    """A connection whose response never ends."""

    def __init__(self):
        pass

    async def read(self):
        return b"x"


async def test_a_response_that_is_cut_while_its_client_takes_a_part_ends():
    client = Client()
    body = _Body(
        make_query("ours", "/traces"), Endless(), client.send, asyncio.get_running_loop().time
    )
    relaying = asyncio.create_task(body.relay(Head(status=200, headers=[])))
    while not client.status:
        await asyncio.sleep(0)
    client.on_part = lambda _part: client.reads.clear()  # it takes one, no more
    client.reads.set()
    body.cut()
    body.cut()
    with pytest.raises(_CutError):
        await asyncio.wait_for(relaying, 10)
    body.cut()
