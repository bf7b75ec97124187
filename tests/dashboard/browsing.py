"""Helpers that the tests of the trace browser share: marked traces, queries, instances."""

import asyncio
import os
from pathlib import Path
from urllib.parse import quote

import httpx

from dashboard.tables.errors import RequestState
from store.traces.database import TraceDatabase
from tests.dashboard.people import BASE_URL
from tests.store.traffic import make_entry

OURS = "marker-of-ours-4711"
THEIRS = "marker-of-theirs-0815"
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"


def record(path, marker, entries=3):
    """Record more calls, with the marker and some markup in every text."""
    with TraceDatabase(path) as traces:
        traces.insert(
            [
                make_entry(
                    request_body=f'{{"{marker}": "<script>alert({n})</script>"}}'.encode(),
                    response_body=f"{marker} <img src=x onerror=alert(1)>".encode(),
                    slug=marker,
                    session_id=marker,
                )
                for n in range(entries)
            ]
        )


def sql(query, suffix=".json"):
    return f"/traces{suffix}?sql={quote(query)}"


def find_open(path):
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(fd)  # noqa: PTH115 - may be no path
        except OSError:
            continue
        if target.startswith(str(path)):
            found.append(target)
    return found


async def settle(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def ask_for(instances, organization_id, path="/traces/usage.json"):
    with instances.use(organization_id) as app:
        assert app is not None

        async def told(scope, receive, send):
            await app({**scope, "taximeter": RequestState(is_for_program=True)}, receive, send)

        transport = httpx.ASGITransport(told)
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
            return await client.get(path)
