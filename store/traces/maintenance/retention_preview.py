"""The preview of a run of retention: how much it will remove.

Calls are counted in the index by endpoint and arrival. The number of freed bytes is estimated, as
if every call and every text had the same size: pieces of texts are shared with calls that stay."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store import database
from store.traces.maintenance.removal import HAS_TEXT, used_bytes
from store.traces.maintenance.retention import Rules, list_endpoints, read_texts_before

BUSY_TIMEOUT_S = 5.0  # people can wait
_CALLS = (
    "select count(*) from usage where proxy_endpoint_id = ? and created_at >= ? and created_at < ?"
)
_TEXTS = f"{_CALLS} and ({HAS_TEXT})"
ENTRY_BYTES = 600  # of a call without its texts, with its indexes; measured over a million


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The number of calls that will be removed, and of calls that will lose their texts.

    This frees about ``freed_bytes`` of ``size_bytes``."""

    entries: int
    texts: int
    freed_bytes: int
    size_bytes: int


NOTHING = Preview(entries=0, texts=0, freed_bytes=0, size_bytes=0)


def read_preview(path: Path, rules: Rules) -> Preview:
    """Return how much these rules would remove. Raises sqlite3.Error."""
    if not path.exists():
        return NOTHING
    with (
        closing(database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as connection,
        database.snapshot(connection),
    ):
        return _preview(connection, rules)


def _preview(connection: sqlite3.Connection, rules: Rules) -> Preview:
    entries = texts = texts_of_entries = 0
    for endpoint_id in list_endpoints(connection):
        limits = rules.find_limits(endpoint_id)
        done = read_texts_before(connection, endpoint_id)
        entries_before = limits.entries_before or ""
        texts_before = limits.texts_before or ""
        entries += _count(connection, _CALLS, endpoint_id, "", entries_before)
        texts_of_entries += _count(connection, _TEXTS, endpoint_id, done, entries_before)
        since = max(done, entries_before)
        texts += _count(connection, _TEXTS, endpoint_id, since, texts_before)
    size = used_bytes(connection)
    all_entries, all_texts = connection.execute(
        "select (select count(*) from usage), (select count(*) from request_bodies)"
    ).fetchone()
    text_bytes = max(0, size - ENTRY_BYTES * all_entries)
    freed = ENTRY_BYTES * entries + text_bytes * (texts + texts_of_entries) // max(1, all_texts)
    freed = min(freed, size)
    if rules.max_bytes is not None and size - freed > rules.max_bytes:
        left = all_entries - entries
        entries += left * (size - freed - rules.max_bytes) // max(1, size - freed)
        freed = size - rules.max_bytes
    return Preview(entries=entries, texts=texts, freed_bytes=freed, size_bytes=size)


def _count(
    connection: sqlite3.Connection, sql: str, endpoint_id: str, since: str, until: str
) -> int:
    if since >= until:
        return 0
    (count,) = connection.execute(sql, (endpoint_id, since, until)).fetchone()
    return int(count)
