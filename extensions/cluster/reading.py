"""The only functions that read from the server data that others have written.

Each needs the function that parses a record, so that no unchecked data is used. An invalid record is
skipped and stays on the server; its key and the reason are logged once. Other records are read."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extensions.cluster import checks, log, server
from extensions.cluster.checks import RecordError
from extensions.cluster.log import LoggedFile
from extensions.cluster.records import parse_node
from runtime.safe_text import terminal_line
from store.spool.format import SpoolError

MOST_REMEMBERED, MOST_SHOWN = 1000, 200

logger = logging.getLogger(__name__)
_said: dict[tuple[str, str], str] = {}  # what was said of which record


def read_value[T](client: server.Client, key: str, parse: Callable[[bytes], T]) -> T | None:
    """Return the record of a key, None if there is none. Raises redis.RedisError."""
    return _parse(key, "", client.get(key), parse)


def read_field[T](
    client: server.Client, key: str, field: str, parse: Callable[[bytes], T]
) -> T | None:
    """Return the record in a field of a hash, None if there is none. Raises redis.RedisError."""
    return _parse(key, field, client.hget(key, field), parse)


def read_hash[T](
    client: server.Client,
    key: str,
    parse: Callable[[str, bytes], T | None],
    refused: set[str] | None = None,
) -> dict[str, T]:
    """Return the records of a hash by field. Fields with invalid records are added to ``refused``.

    Raises redis.RedisError."""
    found: dict[str, T] = {}
    for raw, content in client.hgetall(key).items():
        field = raw.decode("utf-8", "backslashreplace")
        try:
            record = parse(field, content)
        except RecordError as error:
            _complain(key, field, error)
            if refused is not None:
                refused.add(field)
        else:
            _said.pop((key, field[:MOST_SHOWN]), None)
            if record is not None:
                found[field] = record
    return found


def is_said(client: server.Client, key: str, content: bytes, field: str | None = None) -> bool:
    """Return whether a key, or a field of a hash, has exactly this content. Raises redis.RedisError."""
    found = client.get(key) if field is None else client.hget(key, field)
    return bool(found == content)


def has_field(client: server.Client, key: str, field: str) -> bool:
    """Return whether a hash has a field. Raises redis.RedisError."""
    return client.hget(key, field) is not None


def compare(
    client: server.Client, key: str, wanted: Mapping[str, bytes]
) -> tuple[Mapping[str, bytes], Sequence[bytes]]:
    """Return the fields of ``wanted`` that differ in a hash, and the fields to delete from the hash.

    Raises redis.RedisError."""
    found: Mapping[bytes, bytes] = client.hgetall(key)
    changed = {field: each for field, each in wanted.items() if found.get(field.encode()) != each}
    return changed, sorted(found.keys() - {field.encode() for field in wanted})


@dataclass(frozen=True, slots=True)
class Group:
    """The state of a consumer group. ``lag`` counts entries not yet read, None if the server cannot tell."""

    last_delivered: str
    lag: int | None
    pending: int


# The groups of a stream, by name.
type Groups = dict[str, Group]


def find_groups(client: server.Client, streams: Sequence[str]) -> list[Groups]:
    """Return the consumer groups of each stream, empty if the stream does not exist.

    A key of another type counts as no stream. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    for stream in streams:
        pipeline.xinfo_groups(stream)
    results = pipeline.execute(raise_on_error=False)
    return [_read_groups(*each) for each in zip(streams, results, strict=True)]


def _read_groups(stream: str, result: list[dict[str, Any]] | Exception) -> Groups:
    if isinstance(result, Exception):
        if "no such key" in str(result):
            return {}
        if not server.is_wrong_type(result):
            raise result
        _complain(stream, "", RecordError("it is not a stream"))
        return {}
    found: Groups = {}
    for each in result:
        group = _parse(stream, f"{each['name']!r}", each["name"], _parse_group)
        if group is not None:
            found[group] = Group(
                each["last-delivered-id"].decode(), each["lag"], int(each["pending"])
            )
    return found


def find_consumers(client: server.Client, stream: str, group: str) -> dict[str, int]:
    """Return the nodes that read a stream as a group, with the milliseconds since they last did.

    Raises redis.RedisError."""
    found = {}
    for each in client.xinfo_consumers(stream, group):
        node = _parse(stream, f"{each['name']!r}", each["name"], parse_node)
        if node is not None:
            found[node] = int(each["idle"])
    return found


def show_life(client: server.Client, stream: str, group: str, node: str) -> None:
    """Read from a stream without effect, so that the server knows that the node lives.

    Raises redis.RedisError."""
    client.xreadgroup(group, node, {stream: "0"}, count=1)


def find_pending(client: server.Client, streams: Sequence[str], group: str) -> list[set[bytes]]:
    """Return for each stream the names of the nodes with entries that were delivered and not acknowledged.

    They are unchecked bytes, only for comparison. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    for stream in streams:
        pipeline.xpending(stream, group)
    return [{each["name"] for each in found["consumers"]} for found in pipeline.execute()]


def find_first_pending(
    client: server.Client, streams: Iterable[tuple[str, str]]
) -> list[str | None]:
    """Return the id of the first delivered and unacknowledged entry for each (stream, group), or None.

    Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    for stream, group in streams:
        pipeline.xpending(stream, group)
    return [each["min"].decode() if each["min"] else None for each in pipeline.execute()]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the log, of ``size`` bytes.

    ``file`` is None if it has no valid file; then ``problem`` says why, and ``rest`` has its content."""

    id: str
    size: int
    file: LoggedFile | None
    problem: str = ""
    rest: bytes = b""


def read_log(
    client: server.Client,
    group: str,
    node: str,
    streams: Mapping[str, str],
    *,
    count: int,
    block: int | None,
) -> list[tuple[str, list[Entry]]]:
    """Return the entries that the server delivers to ``node``, for each stream with entries.

    ``streams`` has for each stream the id to start after, or ``>`` for new entries. At most ``count``
    entries of a stream are returned; ``block`` is the maximum wait in milliseconds, None to return at
    once. Raises redis.RedisError."""
    found = client.xreadgroup(group, node, streams, count=count, block=block) or []
    return [
        (stream.decode(), [_read_entry(stream.decode(), *each) for each in entries])
        for stream, entries in found
        if entries
    ]


def _read_entry(stream: str, raw_id: bytes, fields: dict[bytes, bytes] | None) -> Entry:
    id_, size = raw_id.decode(), sum(map(len, (fields or {}).values()))
    if not fields:
        return Entry(id_, 0, None, "was removed from the server before this copy had it")
    try:
        return Entry(id_, size, log.decode(stream, fields))
    except SpoolError as error:
        return Entry(id_, size, None, f"is set aside: {error}", repr(fields).encode())


def _parse_group(content: bytes) -> str:
    return checks.group(content[:100].decode("ascii", "replace"))


def _parse[T](key: str, field: str, content: bytes | None, parse: Callable[[bytes], T]) -> T | None:
    """Return a record, or None if there is none or it is invalid."""
    if content is None:
        return None
    try:
        record = parse(content)
    except RecordError as error:
        _complain(key, field, error)
        return None
    _said.pop((key, field[:MOST_SHOWN]), None)
    return record


def _complain(key: str, field: str, error: RecordError) -> None:
    """Log once that a record is invalid."""
    place, reason = (key, field[:MOST_SHOWN]), f"{error}"[:MOST_SHOWN]
    if _said.get(place) == reason:
        return
    if len(_said) >= MOST_REMEMBERED:
        _said.clear()
    _said[place] = reason
    name = f"{key} {place[1]}".rstrip()
    logger.error("%s", terminal_line(f"what is on the server as {name} is not used: {reason}"))
