"""The bytes that a call of a coding agent adds to the database, apart from the text of its response.

Agents' conversations grow turn by turn, as in the case ``300kb`` of ``bench.cpu``. The growth of the
file is read when everything is recorded and indexed, after some turns, after more, and at the end: the
first part shows the size of a call, and the last whether that depends on the length of a session. If
SQLite counts the pages of each table (``dbstat``), the growth is also split by kind of data."""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Figure
from bench.load import BenchError, Client, Proxy, UsageLog, taximeter, upstream
from bench.options import Options
from bench.traffic import SESSIONS, make_body

WARM_UP_TURNS, TURNS, QUICK_TURNS, CONNECTIONS = 4, 12, 4, 16
SETTLED_S, SETTLING_LIMIT_S = 2.0, 120.0
PARTS = {
    "text": "of it: new text of requests",
    "empty": "of it: left empty in pages with texts",
    "search": "of it: index for searching",
    "calls": "of it: rows of calls and their indexes",
    "costs": "of it: line items of costs",
    "other": "of it: lists of pieces, rate limits, sums",
}
_WITH_TEXTS = ("pieces", "response_bodies")
_OF_TABLES = (
    "select s.tbl_name, sum(d.pgsize), sum(d.unused) from dbstat as d"
    " join sqlite_schema as s on s.name = d.name where d.aggregate = true group by 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a database in bytes, without free pages, and of the responses in it.

    ``parts`` are bytes by the names of ``PARTS``, empty if SQLite does not count them."""

    calls: int
    used_bytes: int
    response_bytes: int
    parts: Mapping[str, int] = field(default_factory=dict)


def measure(options: Options) -> Iterator[Figure]:
    """Yield the bytes that a call adds, early and late in its session. Raises BenchError."""
    turns = options.choose(TURNS, QUICK_TURNS)
    ends = (WARM_UP_TURNS, WARM_UP_TURNS + turns, WARM_UP_TURNS + 2 * turns)
    with ExitStack() as stack:
        folder = stack.enter_context(options.folder())
        direct = stack.enter_context(upstream())
        ours, log = stack.enter_context(taximeter(folder, direct.port, ends[-1] * SESSIONS))
        client = stack.enter_context(Client())
        sizes, first = [], 0
        for end in ends:
            _call(client, ours, first, end * SESSIONS)
            first = end * SESSIONS
            log.wait_for(first)
            sizes.append(read_settled(log))
    yield from make_figures(*sizes, raw_bytes=len(make_body("agent", first - 1)))


def make_figures(start: Size, middle: Size, end: Size, *, raw_bytes: int) -> Iterator[Figure]:
    """Yield the figures of the early and the late part of the sessions."""
    early, late = bytes_per_call(start, middle), bytes_per_call(middle, end)
    yield Figure(
        row="storage/call",
        title="stored for a call of an agent, besides its response",
        value=bytes_per_call(start, end) / 1000,
        unit="KB",
        target=6.7,
        note=f"its request has {raw_bytes / 1000:.0f} KB",
    )
    yield Figure(
        row="storage/growth",
        title="the same late in a session / early in it",
        value=late / early,
        target=1.1,
        note=f"{early / 1000:.2f} KB, then {late / 1000:.2f} KB",
    )
    for name in end.parts:
        yield Figure(
            row=f"storage/{name}",
            title=PARTS[name],
            value=(end.parts[name] - start.parts[name]) / (end.calls - start.calls) / 1000,
            unit="KB",
        )


def bytes_per_call(start: Size, end: Size) -> float:
    """Return the bytes that each call has added, apart from its response."""
    added = end.used_bytes - start.used_bytes - (end.response_bytes - start.response_bytes)
    return added / (end.calls - start.calls)


def read_settled(log: UsageLog) -> Size:
    """Return the size once nothing is written any more. Raises BenchError if that takes too long."""
    deadline_s = time.monotonic() + SETTLING_LIMIT_S
    size = read_size(log.path)
    while time.monotonic() < deadline_s:
        time.sleep(SETTLED_S)
        if size == (size := read_size(log.path)):
            return size
    raise BenchError("the database does not settle")


def read_size(path: Path) -> Size:
    """Return the size of a database, including its write-ahead log."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
        pages, free, page_bytes = (
            int(connection.execute(f"pragma {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        calls, responses = connection.execute(
            "select count(*), coalesce(sum(length(cast(body as blob))), 0) from response_bodies"
        ).fetchone()
        used = (pages - free) * page_bytes
        parts = _read_parts(connection, used - responses)
    return Size(calls=calls, used_bytes=used, response_bytes=responses, parts=parts)


def _read_parts(connection: sqlite3.Connection, all_bytes: int) -> Mapping[str, int]:
    """Return the bytes of each part of a database; the last part is the rest."""
    try:
        rows = connection.execute(_OF_TABLES).fetchall()
    except sqlite3.OperationalError:  # built without dbstat
        return {}
    sizes = {table: size for table, size, _ in rows}
    (text,) = connection.execute(
        "select coalesce(sum(length(cast(text as blob))), 0) from pieces"
    ).fetchone()
    parts = {
        "text": text,
        "empty": sum(empty for table, _, empty in rows if table in _WITH_TEXTS),
        "search": sum(size for table, size in sizes.items() if table.startswith("search_")),
        "calls": sizes["usage"],
        "costs": sizes["usage_cost"],
    }
    return parts | {"other": all_bytes - sum(parts.values())}


def _call(client: Client, ours: Proxy, first: int, end: int) -> None:
    client.run_calls(ours.make_job("agent", first, end - first, CONNECTIONS))
