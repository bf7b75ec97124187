"""Calls with all data read for them, just recorded or read again from the database.

Judging a call depends on earlier calls, which may have been stored long ago or before a restart of
the recorder."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from metering.billed_passes import Call, make_call
from metering.entry import CostItem, UsageLogEntry
from metering.tool_results import NO_RESULTS, LastResults
from metering.usage import Usage, read_usage
from recorder.requests import ReadRequest
from runtime import clock
from store import database
from store.traces.bodies import bodies
from store.traces.bodies.bodies import MissingPieceError, StoredBodies
from store.traces.calls import costs
from store.traces.calls.reader import make_entry
from store.traces.database import SCALARS

# A larger body is not read again: others would wait for it.
MAX_BODY_BYTES = 8 * 1024 * 1024
_SIZES = ("request_body_length", "response_body_length")
_SELECT = f"select {', '.join((*SCALARS, *_SIZES))}, id from usage"  # noqa: S608 - our own names


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class RecordedCall:
    """A call with its usage, the facts its cost is made from, and its decoded bodies.

    ``request`` is None and ``response`` empty if the body is not kept. ``read_request`` is the parsed
    request, ``tool_results`` what the proxy has read of a request that is not kept."""

    entry: UsageLogEntry
    usage: Usage
    bill: Call
    request: bytes | None
    response: bytes
    read_request: ReadRequest | None = None
    tool_results: LastResults = NO_RESULTS


def read_by_id(connection: sqlite3.Connection, usage_id: int) -> RecordedCall | None:
    """Return the stored call with this row id, or None."""
    return next(iter(_read(connection, "where id = ?", (usage_id,))), None)


def read_by_entry_id(connection: sqlite3.Connection, entry_id: str) -> RecordedCall | None:
    """Return the stored call with this entry id, or None."""
    return next(iter(_read(connection, "where entry_id = ?", (entry_id,))), None)


def read_latest(
    connection: sqlite3.Connection, where: str, values: Sequence[object], count: int, max_bytes: int
) -> list[RecordedCall]:
    """Return the latest calls that the condition ``where`` selects, oldest first.

    There are at most ``count`` of them; reading stops once their bodies have ``max_bytes`` together."""
    found: list[RecordedCall] = []
    size = 0
    ids = connection.execute(
        f"select id from usage {where} and usage_source <> 'imported'"  # noqa: S608 - our own text
        " order by created_at desc, id desc limit ?",
        (*values, count),
    ).fetchall()
    for (usage_id,) in ids:
        call = read_by_id(connection, usage_id)
        if call is not None:  # retention may remove it meanwhile
            found.append(call)
            size += len(call.request or b"") + len(call.response)
        if size > max_bytes:
            break
    return found[::-1]


def _read(
    connection: sqlite3.Connection, where: str, values: Sequence[object]
) -> list[RecordedCall]:
    with database.snapshot(connection):
        rows = connection.execute(f"{_SELECT} {where}", values).fetchall()
        return [_make(connection, row) for row in rows]


def _make(connection: sqlite3.Connection, values: Sequence[object]) -> RecordedCall:
    row = dict(zip((*SCALARS, *_SIZES, "id"), values, strict=True))
    entry = make_entry(row)
    stored = StoredBodies(request=None, response=None)
    is_chat = entry.product == "chat_completions"  # its bodies are of another format
    if not is_chat and all(_as_int(row[name]) <= MAX_BODY_BYTES for name in _SIZES):
        with suppress(MissingPieceError):
            stored = bodies.read_bodies(connection, _as_int(row["id"]))
    if stored.response is None:
        items = costs.read_items(connection, _as_int(row["id"]))
        usage = _make_usage(entry, items)
        bill = _make_bill(entry, items)
    else:
        usage = read_usage(
            entry.status_code,
            "text/event-stream" if entry.streamed else "application/json",
            stored.response,
            is_complete=entry.usage_source in ("final", "imported"),
            cache_ttl=entry.cache_ttl,
        )
        bill = make_call(
            usage,
            created_at=clock.parse_instant(entry.created_at),
            outcome=entry.outcome,
            status_code=entry.status_code,
            product=entry.product,
            upstream=entry.upstream,
        )
    return RecordedCall(
        entry=entry,
        usage=usage,
        bill=bill,
        request=stored.request,
        response=stored.response or b"",
    )


def _as_int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _make_usage(entry: UsageLogEntry, items: Sequence[CostItem]) -> Usage:
    """Return the usage of a call without a stored response, from its row and line items."""
    return Usage(
        streamed=entry.streamed,
        source=entry.usage_source,
        model=entry.model,
        tokens=entry.tokens,
        cache_write_1h_tokens=entry.cache_write_1h_tokens or 0,
        web_search_requests=entry.web_search_requests,
        is_sum=any(item.pass_index for item in items),
        service_tier=entry.service_tier,
        speed=entry.speed,
        inference_geo=entry.inference_geo,
    )


def _make_bill(entry: UsageLogEntry, items: Sequence[CostItem]) -> Call:
    return Call(
        created_at=clock.parse_instant(entry.created_at),
        outcome=entry.outcome,
        status_code=entry.status_code,
        usage_source=entry.usage_source,
        model=entry.model,
        service_tier=entry.service_tier,
        speed=entry.speed,
        inference_geo=entry.inference_geo,
        items=items,
        product=entry.product,
        upstream=entry.upstream,
    )
