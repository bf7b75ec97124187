"""The times that the query proxy keeps, tried without processes."""

import asyncio

import pytest

from dashboard.queries import query_proxy as proxy_module
from dashboard.queries.client import Connection, Head
from dashboard.queries.lanes import Place
from dashboard.queries.query import Request
from dashboard.queries.query_proxy import QueryProxy, StoppedError
from dashboard.queries.responses import Body
from dashboard.slow_readers import CutError
from tests.dashboard.queries.pool import Client, make_query


class Endless(Connection):
    """A connection whose response never ends."""

    def __init__(self):
        pass

    async def read(self):
        return b"x"


async def test_a_response_that_is_cut_while_its_client_takes_a_part_ends():
    client = Client()
    clock_s = asyncio.get_running_loop().time
    request = Request(query=make_query("ours", "/traces"), send=client.send, begun_s=clock_s())
    body = Body(request, Endless(), clock_s)
    forwarding = asyncio.create_task(body.forward(Head(status=200, headers=[])))
    while not client.status:
        await asyncio.sleep(0)
    client.on_part = lambda _part: client.reads.clear()  # it takes one, no more
    client.reads.set()
    body.cut()
    body.cut()
    with pytest.raises(CutError):
        await asyncio.wait_for(forwarding, 60)
    body.cut()


async def test_a_caller_is_checked_again_once_some_time_has_passed():
    checked = 0

    async def check():
        nonlocal checked
        checked += 1

    client = Client()
    request = Request(query=make_query("ours", "/", check), send=client.send, begun_s=100.0)
    for now_s, expected in ((100.1, 0), (100.25, 0), (100.3, 1), (100.5, 1), (100.6, 2)):
        await request.recheck(now_s)
        assert checked == expected, f"at {now_s}"


NO_PROCESS = 2**30
"""No pid: that of a process would be the one whose priority is lowered, and 0 is the tests' own."""


class Silent(Connection):
    """One that never answers."""

    def __init__(self):
        pass

    async def read_head(self):
        await asyncio.Event().wait()
        raise AssertionError("nobody sets the event")


async def test_the_deadline_counts_from_the_request_and_not_from_the_slow_lane(
    tmp_path, monkeypatch
):
    now_s = 100.0
    proxy = QueryProxy(tmp_path, 2, lambda: now_s)

    async def pass_time(_task, within_s):
        nonlocal now_s
        now_s += within_s
        return False

    monkeypatch.setattr(proxy_module, "_is_done", pass_time)
    monkeypatch.setattr(proxy_module, "cpu_s", lambda _pid: 0.0)
    query = make_query("ours", "/traces", deadline_s=4.0)
    place = Place("ours", is_slow=False, since_s=now_s)
    with pytest.raises(StoppedError):
        await proxy._fetch_head(query, place, NO_PROCESS, Silent())
    assert now_s == pytest.approx(104.0)
