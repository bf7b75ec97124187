"""Calls with all columns of ``usage_log``, page by page, for the API and exports.

They are in the order of their arrival. The place of a page is the instant and the entry id of the
call before it, which are the same in every copy of the calls: a list may be continued in another
copy."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import orjson

from store.list_cursors import format_cursor, parse_cursor
from store.traces.bodies.bodies import MissingPieceError
from store.traces.bodies.body_json import encode_body
from store.traces.calls.call_reader import SIDES, CallReader
from store.traces.calls.exported_call import encode_details
from store.traces.calls.reader import BODIES, EntryFilter, Row, TraceReader

type _Place = tuple[str, str]

SEARCHED = 50_000  # calls, for a page of those that a filter chooses: some tenths of a second
PAGE_BYTES = 8 << 20  # of JSON. Only a call that is alone on its page may have more.
WHOLE_BYTES = 1 << 20  # Bodies of a call up to this size are read at once.


class CallPage:
    """A page of calls whose bodies are read while it is encoded.

    ``columns`` has the declared type of each column."""

    def __init__(
        self,
        columns: Mapping[str, str],
        items: Sequence[Row] = (),
        behind: _Place | None = None,
        bodies_in: Path | None = None,
    ) -> None:
        """Make a page of entries. ``bodies_in`` is the trace database to read bodies from, None: no bodies.

        The next page begins after the place ``behind``, None on the last page."""
        self.columns = columns
        self._items = items
        self._behind = behind
        self._bodies_in = bodies_in

    @property
    def next_cursor(self) -> str | None:
        """Return the cursor of the next page, or None. Call this after ``encode_items``."""
        return None if self._behind is None else format_cursor(self._behind)

    def encode_items(self) -> Iterator[bytes]:
        """Yield the entries as a JSON array, in parts of at most some MB. Raises sqlite3.Error."""
        try:
            yield from self._encode_items()
        except MissingPieceError as error:
            raise sqlite3.DatabaseError(f"a body is not whole: {error}") from error

    def _encode_items(self) -> Iterator[bytes]:
        size, separator = 0, b"["
        with ExitStack() as stack:
            bodies = None
            if self._bodies_in is not None and self._items:
                bodies = stack.enter_context(CallReader.open(self._bodies_in))
            for number, item in enumerate(self._items):
                parts = [orjson.dumps(item)] if bodies is None else _encode(bodies, item)
                if parts is None:
                    continue  # removed by retention since its page was read
                if size and not _fits(parts, PAGE_BYTES - size):
                    self._behind = _find_place(self._items[number - 1])
                    break
                yield separator
                separator = b","
                for part in parts:
                    size += len(part)
                    yield part
        yield b"]" if size else b"[]"


def read_calls(
    path: Path,
    organization_id: str,
    entry_filter: EntryFilter,
    cursor: str | None,
    limit: int,
    *,
    with_bodies: bool,
) -> CallPage:
    """Return a page of the calls in a trace database, an empty one if nothing has been recorded.

    If the filter chooses few calls, a page may have fewer than ``limit``, or none, and not be the last
    one. Raises InvalidCursorError, sqlite3.Error."""
    place = (entry_filter.since or "", "") if cursor is None else parse_cursor(cursor, str)
    columns = {"organization_id": "text"} | dict.fromkeys(BODIES if with_bodies else (), "text")
    if not path.exists():
        return CallPage(columns)
    with TraceReader(path) as reader:
        if not reader.is_ready:
            return CallPage(columns)
        end = _find_end(reader, entry_filter, place)
        searched = entry_filter if end is None else replace(entry_filter, until=end)
        rows = reader.read_page(searched, place, limit + 1)
        types = {name: declared for name, declared in reader.types.items() if name not in BODIES}
    page, left = rows[:limit], len(rows) > limit
    return CallPage(
        {"organization_id": "text"} | types | columns,
        [make_item(organization_id, row) for row in page],
        _find_place(page[-1]) if left else None if end is None else (end, ""),
        path if with_bodies else None,
    )


class _LargeCall:
    """The JSON of a call with large bodies. Each iteration reads and encodes them anew, part by part."""

    def __init__(self, reader: CallReader, item: Row) -> None:
        self._reader = reader
        self._item = item

    def __iter__(self) -> Iterator[bytes]:
        return _encode_parts(self._reader, self._item)


def _encode(reader: CallReader, item: Row) -> Iterable[bytes] | None:
    """Return the JSON of an entry with its bodies, in parts, or None if the entry is gone.

    Small bodies are read in one transaction; for large ones no transaction stays open between parts."""
    with reader.snapshot():
        size = reader.count_body_bytes(item["id"])
        if size is None:
            return None
        if size <= WHOLE_BYTES:
            return [b"".join(_encode_parts(reader, item))]
    return _LargeCall(reader, item)


def _encode_parts(reader: CallReader, item: Row) -> Iterator[bytes]:
    yield orjson.dumps(item)[:-1]
    for name, side in zip(BODIES, SIDES, strict=True):
        yield b',"%s":' % name.encode()
        is_text = reader.is_text(side, item["id"])
        if is_text is None:
            yield b"null"
        else:
            yield from encode_body(reader.iter_body(item["id"], side), is_text=is_text)
    yield from encode_details(reader.connection, item["id"])
    yield b"}"


def _fits(parts: Iterable[bytes], left_bytes: int) -> bool:
    """Return whether the parts of a JSON text have at most ``left_bytes`` together."""
    return all(size <= left_bytes for size in accumulate(map(len, parts)))


def _find_end(reader: TraceReader, entry_filter: EntryFilter, place: _Place) -> str | None:
    """Return the instant at which to stop searching for calls that a filter chooses, or None.

    None means that no bound is needed: a page of all calls ends when it is full."""
    if not entry_filter.may_choose_few:
        return None
    end = reader.find_arrival(place[0], SEARCHED)
    is_sooner = end is not None and (entry_filter.until is None or end < entry_filter.until)
    return end if is_sooner else None


def make_item(organization_id: str, row: Row) -> Row:
    """Return a row of ``usage_log`` in the form of an export, with the organisation."""
    return {"organization_id": organization_id} | row


def _find_place(row: Row) -> _Place:
    return row["created_at"], row["entry_id"]
