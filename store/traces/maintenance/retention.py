"""Retention: removal of calls and texts above an organisation's limits of age and size.

Hourly and daily sums stay. Texts (bodies, titles, quotations and indexed words) may be removed
before their calls. ``retention_texts`` has for each endpoint the instant up to which texts are
removed: no call that arrived before it has a text any more. A call that is stored later than it
arrived moves that instant back (``note_arrival``). The write lock is held for some 20 ms at a time;
see ``steps`` and ``removal``."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from store.traces.maintenance.removal import (
    finish,
    give_back,
    remove_entry,
    remove_text,
    settle_sessions,
    sweep,
    used_bytes,
)
from store.traces.steps import Step, Steps, in_steps

_ROUND_ENTRIES = 50_000  # between two sweeps; bounds the ids held in memory
_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The instants before which calls and texts are removed, None if they are kept."""

    entries_before: str | None = None
    texts_before: str | None = None


KEEP_ALL = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of an organisation: limits of age, also by endpoint, and a limit of size.

    Above ``max_bytes`` the oldest calls are removed until the rest fits."""

    limits: Limits = KEEP_ALL
    by_endpoint: Mapping[str, Limits] = field(default_factory=dict)  # by id
    max_bytes: int | None = None

    def find_limits(self, endpoint_id: str) -> Limits:
        """Return the limits of an endpoint."""
        return self.by_endpoint.get(endpoint_id, self.limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The number of calls that were removed, and of calls that only lost their texts."""

    entries: int
    texts: int
    bytes_before: int
    bytes_after: int

    @property
    def bytes_freed(self) -> int:
        return max(0, self.bytes_before - self.bytes_after)


def prune(connection: sqlite3.Connection, rules: Rules) -> Steps[Pruned]:
    """Remove calls and texts by the rules, and give free pages back to the file system.

    Raises sqlite3.Error; the database is consistent then too."""
    bytes_before = used_bytes(connection)
    yield from sweep(connection)  # loose rows of a run that was killed
    entries = texts = 0
    for endpoint_id in list_endpoints(connection):
        limits = rules.find_limits(endpoint_id)
        if limits.entries_before is not None:
            entries += yield from _prune_by_age(connection, endpoint_id, limits.entries_before)
        if limits.texts_before is not None:
            texts += yield from _remove_texts(connection, endpoint_id, limits.texts_before)
    yield from in_steps(connection, lambda _step: _remove_objects(connection, rules))
    yield from sweep(connection)
    if rules.max_bytes is not None:
        entries += yield from _prune_by_size(connection, rules.max_bytes)
    if entries or texts:
        yield from finish(connection)
    yield from give_back(connection)
    return Pruned(
        entries=entries,
        texts=texts,
        bytes_before=bytes_before,
        bytes_after=used_bytes(connection),
    )


def _remove_objects(connection: sqlite3.Connection, rules: Rules) -> bool:
    """Remove managed sessions and dreams that were last read before the limit for calls."""
    sql = "select distinct proxy_endpoint_id from upstream_objects"
    for (endpoint_id,) in connection.execute(sql).fetchall():
        before = rules.find_limits(endpoint_id).entries_before
        connection.execute(
            "delete from upstream_objects where proxy_endpoint_id = ? and read_at < ?",
            (endpoint_id, before or ""),
        )
    return True


def list_endpoints(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of the endpoints that have calls, by a few look-ups in an index."""
    found: list[str] = []
    after = ""
    while True:
        (endpoint_id,) = connection.execute(
            "select min(proxy_endpoint_id) from usage where proxy_endpoint_id > ?", (after,)
        ).fetchone()
        if endpoint_id is None:
            return found
        found.append(endpoint_id)
        after = endpoint_id


def read_texts_before(connection: sqlite3.Connection, endpoint_id: str) -> str:
    """Return the instant before which no call of an endpoint has a text, "" if none is noted."""
    row = connection.execute(
        "select texts_before from retention_texts where proxy_endpoint_id = ?", (endpoint_id,)
    ).fetchone()
    return "" if row is None else str(row[0])


def note_arrival(connection: sqlite3.Connection, created_at: str) -> None:
    """Note that a call is stored that arrived at ``created_at``, so that its text will be removed too.

    The caller holds the write lock."""
    connection.execute(
        "update retention_texts set texts_before = :at where texts_before > :at", {"at": created_at}
    )


def _prune_by_age(connection: sqlite3.Connection, endpoint_id: str, before: str) -> Steps[int]:
    oldest = (
        "select id from usage where proxy_endpoint_id = ? and created_at < ?"
        " order by created_at, id limit 1"
    )
    total = 0
    while removed := (
        yield from _remove_oldest(connection, _ROUND_ENTRIES, oldest, (endpoint_id, before))
    ):
        total += removed
        if removed == _ROUND_ENTRIES:
            yield from sweep(connection)
    return total


def _prune_by_size(connection: sqlite3.Connection, max_bytes: int) -> Steps[int]:
    """Remove the oldest calls until the database has at most ``max_bytes``. Returns how many.

    The space that a call frees is known only after the sweep. So each round removes half of the
    estimated number, and at most a twentieth of all calls: calls that turn out large must not cost more
    than that many."""
    oldest = "select id from usage order by created_at, id limit 1"
    total = 0
    while (used := used_bytes(connection)) > max_bytes:
        (entries,) = connection.execute("select count(*) from usage").fetchone()
        half_way = int(entries * (1 - max_bytes / used) / 2)
        share = max(1, entries // 1000, min(half_way, entries // 20, _ROUND_ENTRIES))
        removed = yield from _remove_oldest(connection, share, oldest, ())
        if not removed:
            break
        total += removed
        yield from sweep(connection)
    return total


def _remove_oldest(
    connection: sqlite3.Connection, limit: int, oldest: str, values: tuple[str, ...]
) -> Steps[int]:
    """Remove up to ``limit`` of the calls that the query ``oldest`` finds; return how many."""
    removed = 0

    def remove_some(step: Step) -> bool:
        nonlocal removed
        untitled: set[str] = set()
        row = connection.execute(oldest, values).fetchone()
        while row is not None and removed < limit and step.has_time:
            remove_entry(connection, row[0], untitled)
            removed += 1
            row = connection.execute(oldest, values).fetchone()
        settle_sessions(connection, untitled)
        return row is None or removed == limit

    yield from in_steps(connection, remove_some)
    return removed


def _remove_texts(connection: sqlite3.Connection, endpoint_id: str, before: str) -> Steps[int]:
    """Remove the texts of an endpoint's calls from before an instant, oldest first. Returns how many."""
    removed = since_sweep = 0
    place = (read_texts_before(connection, endpoint_id), 0)

    def remove_some(step: Step) -> bool:
        nonlocal removed, since_sweep, place
        noted = read_texts_before(connection, endpoint_id)
        if noted < place[0]:  # a call was stored meanwhile that arrived before
            place = noted, 0
        rows = connection.execute(
            "select created_at, id from usage where proxy_endpoint_id = ?"
            " and (created_at, id) > (?, ?) and created_at < ? order by created_at, id limit ?",
            (endpoint_id, *place, before, _AT_ONCE),
        ).fetchall()
        untitled: set[str] = set()
        done = 0
        for created_at, usage_id in rows:
            if not step.has_time:
                break
            place = created_at, usage_id
            done += 1
            if remove_text(connection, usage_id, untitled):
                removed += 1
                since_sweep += 1
        settle_sessions(connection, untitled)
        is_done = done == len(rows) < _AT_ONCE
        _note_texts_before(connection, endpoint_id, before if is_done else place[0])
        return is_done or since_sweep >= _ROUND_ENTRIES

    while place[0] < before:
        since_sweep = 0
        yield from in_steps(connection, remove_some)
        if since_sweep < _ROUND_ENTRIES:
            break
        yield from sweep(connection)
    return removed


def _note_texts_before(connection: sqlite3.Connection, endpoint_id: str, before: str) -> None:
    connection.execute(
        "insert into retention_texts (proxy_endpoint_id, texts_before) values (?, ?)"
        " on conflict (proxy_endpoint_id) do update set texts_before = excluded.texts_before",
        (endpoint_id, before),
    )
