"""Verification that bodies are complete, that sums agree, and that texts can be found.

Every body is rebuilt twice, by key in Python and by the SQL of ``usage_log``, and compared with the
length and SHA-256 that were stored when it was received. Reads are many short ones, so that neither
a recorder nor its checkpoints wait for a long check."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from store.database import snapshot
from store.traces.bodies.bodies import MissingPieceError, StoredBodies, is_text, read_bodies
from store.traces.maintenance import verify_costs
from store.traces.search import verify_index

_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem that was found. ``entry_id`` is None if it concerns the whole database."""

    entry_id: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noted:
    """The length in bytes and the SHA-256 of a body, stored when it was received."""

    length: int | None
    sha256: bytes | None


def verify(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Yield problems as they are found; nothing if there are none.

    A damaged page is such a problem. Raises sqlite3.OperationalError for errors that do not concern the
    data, such as a lock."""
    checks: tuple[Callable[[sqlite3.Connection], Iterator[Problem | str]], ...] = (
        _check_pages,
        _check_references,
        _check_segments,
        _check_entries,
        _check_costs,
        verify_costs.check_hours,
        verify_costs.check_days,
        verify_index.check_index,
    )
    for check in checks:
        try:
            for found in check(connection):
                yield Problem(entry_id=None, message=found) if isinstance(found, str) else found
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:  # SQLite gave up on this check; try the others
            yield Problem(entry_id=None, message=str(error))


def _check_pages(connection: sqlite3.Connection) -> Iterator[str]:
    for (message,) in connection.execute("PRAGMA integrity_check").fetchall():
        if message != "ok":
            yield message


def _check_references(connection: sqlite3.Connection) -> Iterator[str]:
    for table, key, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchall():
        yield f"{table} {key} belongs to no row of {parent}"


def _check_segments(connection: sqlite3.Connection) -> Iterator[str]:
    last_id = 0
    while rows := connection.execute(
        "select g.id, (select group_concat(k.value) from json_each(g.piece_ids) as k"
        " where not exists (select 1 from pieces as p where p.id = k.value))"
        " from segments as g where g.id > ? order by g.id limit ?",
        (last_id, _PAGE),
    ).fetchall():
        for segment_id, missing in rows:
            if missing is not None:
                yield f"segment {segment_id}: pieces {missing} are missing"
        last_id = rows[-1][0]


def _check_entries(connection: sqlite3.Connection) -> Iterator[Problem]:
    last_id = 0
    while rows := connection.execute(
        "select id from usage where id > ? order by id limit ?", (last_id, _PAGE)
    ).fetchall():
        for (usage_id,) in rows:
            yield from _check_whole_entry(connection, usage_id)
        last_id = rows[-1][0]


def _check_costs(connection: sqlite3.Connection) -> Iterator[Problem]:
    for entry_id, message in verify_costs.check_costs(connection):
        yield Problem(entry_id=entry_id, message=message)


def _check_whole_entry(connection: sqlite3.Connection, usage_id: int) -> list[Problem]:
    try:
        with snapshot(connection):
            return list(_check_entry(connection, usage_id))
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:  # a page of this one; others may be whole
        return [Problem(entry_id=None, message=f"entry {usage_id} cannot be read: {error}")]


def _check_entry(connection: sqlite3.Connection, usage_id: int) -> Iterator[Problem]:
    row = connection.execute(
        "select u.entry_id, u.request_body_length, u.response_body_length, q.sha256, r.sha256"
        " from usage as u left join request_bodies as q on q.usage_id = u.id"
        " left join response_bodies as r on r.usage_id = u.id where u.id = ?",
        (usage_id,),
    ).fetchone()
    if row is None:  # removed by retention since it was listed
        return
    entry_id, request_length, response_length, request_sha256, response_sha256 = row
    request = _Noted(length=request_length, sha256=request_sha256)
    response = _Noted(length=response_length, sha256=response_sha256)
    try:
        read = read_bodies(connection, usage_id)
    except MissingPieceError as error:
        yield Problem(entry_id=entry_id, message=str(error))
    else:
        for message in _compare_both(read, request, response):
            yield Problem(entry_id=entry_id, message=message)
    for message in _check_view(connection, usage_id, request, response):
        yield Problem(entry_id=entry_id, message=f"usage_log: {message}")


def _check_view(
    connection: sqlite3.Connection, usage_id: int, request: _Noted, response: _Noted
) -> Iterator[str]:
    request_body, request_type, response_body, response_type = connection.execute(
        "select cast(request_body as blob), typeof(request_body),"
        " cast(response_body as blob), typeof(response_body) from usage_log where id = ?",
        (usage_id,),
    ).fetchone()
    seen = StoredBodies(request=request_body, response=response_body)
    yield from _compare_both(seen, request, response)
    for name, body, shown_as in (
        ("request_body", seen.request, request_type),
        ("response_body", seen.response, response_type),
    ):
        expected = "null" if body is None else "text" if is_text(body) else "blob"
        if shown_as != expected:
            yield f"{name} is {shown_as}, not {expected}"


def _compare_both(bodies: StoredBodies, request: _Noted, response: _Noted) -> Iterator[str]:
    for name, body, noted in (
        ("request_body", bodies.request, request),
        ("response_body", bodies.response, response),
    ):
        message = _compare(body, noted)
        if message is not None:
            yield f"{name} {message}"


def _compare(body: bytes | None, noted: _Noted) -> str | None:
    if body is None or noted.length is None:
        if body is None and noted.length is None:
            return None
        return "is missing" if body is None else "is there although it was not kept"
    if len(body) != noted.length:
        return f"has {len(body)} bytes, not {noted.length}"
    if hashlib.sha256(body).digest() != noted.sha256:
        return "differs from what was recorded"
    return None
