"""Blocks of content, from a document or joined from the deltas of a stream.

The texts of a stream come in parts, which may end anywhere, even in the middle of a character.
Those of a block are joined before they are decoded: most streams are written in the same way, and a
regular expression finds the parts in them ten times as quickly as a parser. If it does not find
them all, each event is parsed. A stream that was cut off has the blocks that came, the last one as
far as it came."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeGuard

from wire.block import INPUT, THINKING, Block
from wire.chat_completions import read_chat
from wire.envelope import Envelope, is_document, is_fallback, parse_event
from wire.json_reading import as_list, as_object, decode_string, parse_object
from wire.sse import BLANK_LINE, parse_events
from wire.usage_object import Fields

MAX_EVENTS = 150_000
MAX_BLOCKS = 10_000
MAX_REMEMBERED, MAX_REMEMBERED_BYTES = 200, 16 * 1024
_DELTA, _START, _DATA = b'"content_block_delta"', b'"content_block_start"', b"data:"
_CHANGE = b"content_block_"
_FALLBACK = b'"fallback"'
_MAX_LOOKS = 1_000  # at events that have the word in them
# It begins with text and not with an anchor, for that is sought faster.
_PLAIN_DELTA = re.compile(
    rb'\ndata: ?\{"type": ?"content_block_delta", ?"index": ?(\d{1,4}), ?"delta": ?\{'
    rb'"type": ?"(?:text|thinking|input_json|signature)_delta", ?'
    rb'"(text|thinking|partial_json|signature)": ?"([^"\\]*+(?:\\.[^"\\]*+)*+)" ?\} ?\}'
)
_KINDS = {THINKING: "thinking", INPUT: "tool_use"}  # of a block whose start was lost


class Content(NamedTuple):
    """The blocks of a response in order. ``is_beginning``: there are more events, which were not read."""

    blocks: Sequence[Block] = ()
    is_beginning: bool = False


class Change(NamedTuple):
    """A change of the content by one event: the start of a block, or a delta."""

    place: object
    is_start: bool
    fields: Fields


class ContentReader:
    """A reader that joins the blocks of a stream from its events, in their order.

    Texts are kept as lists of parts: joining them at each of a hundred thousand would take quadratic
    time."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._by_index: dict[int, Block] = {}
        self._last = 0  # what an event without an index is about

    def read(self, kind: str, document: Fields) -> None:
        """Add a parsed event."""
        change = _read_change(kind, document)
        if change is None:
            return
        index = change.place
        if change.is_start:
            self._begin(self._last if index is None else index, dict(change.fields))
            return
        block = self._find(self._last if index is None else index)
        if block is None:
            return
        if "citation" in change.fields:
            block.fields.setdefault("type", "text")
            block.add_citation(change.fields["citation"])
            return
        for name, value in change.fields.items():
            if name != "type" and isinstance(value, str):
                _add(block, name, value)

    def read_text(self, index: int, name: str, text: str) -> None:
        """Append text from deltas to a field of a block."""
        if (block := self._find(index)) is not None:
            _add(block, name, text)

    def _find(self, index: object) -> Block | None:
        """Return the block number ``index``, or None for an invalid number.

        If the start of the block was lost, it is a new block."""
        return self._by_index.get(index) or self._begin(index, {}) if _is_index(index) else None

    def _begin(self, index: object, start: dict[str, object]) -> Block | None:
        if not _is_index(index) or len(self.blocks) >= MAX_BLOCKS:
            return None
        block = self._by_index[index] = Block(start)
        self._last = index
        self.blocks.append(block)
        return block


def read_content(body: bytes, max_events: int = MAX_EVENTS) -> Content:
    """Return the content of a decoded body, whole or cut off. Never raises.

    The result is cached, so callers must not change it."""
    if (chat := read_chat(body, max_events)) is not None:
        return Content([Block(each) for each in chat.blocks])
    if is_document(body):
        document = parse_object(body) or {}
        return Content([Block(each) for each in as_list(document.get("content"))])
    if max_events != MAX_EVENTS:
        return _parse(body, max_events)
    return _remember_stream(body) if len(body) <= MAX_REMEMBERED_BYTES else _read_stream(body)


def list_content(said: Envelope, body: bytes) -> Sequence[Block]:
    """Return the blocks of a body whose envelope was read; a document is not parsed again.

    See ``read_content``."""
    if said.is_document:
        return [Block(each) for each in as_list(said.message.get("content"))]
    return read_content(body).blocks


def find_fallbacks(body: bytes, most: int) -> list[int]:
    """Return the positions of the first ``most`` events of a stream by which another model takes over."""
    places: list[int] = []
    at = 0
    for _ in range(_MAX_LOOKS):
        found = body.find(_FALLBACK, at) if len(places) < most else -1
        if found < 0:
            break
        before = body.rfind(BLANK_LINE, at, found)
        start = before + len(BLANK_LINE) if before >= 0 else at
        end = body.find(BLANK_LINE, found)
        at = end if end >= 0 else len(body)
        if _has_fallback(body[start:at]):
            places.append(start)
    return places


def _has_fallback(events: bytes) -> bool:
    changes = (_read_change(*parse_event(each)) for each in parse_events(events, (_CHANGE,)))
    return any(each is not None and is_fallback(each.fields) for each in changes)


def _read_stream(body: bytes) -> Content:
    blocks = _read_quickly(body)
    return _parse(body, MAX_EVENTS) if blocks is None else Content(blocks)


_remember_stream = lru_cache(maxsize=MAX_REMEMBERED)(_read_stream)


def _parse(body: bytes, max_events: int) -> Content:
    reader = ContentReader()
    events = parse_events(body)
    for event in islice(events, max_events):
        if _CHANGE in event.data or event.name.startswith(_CHANGE.decode()):
            reader.read(*parse_event(event))
    return Content(reader.blocks, next(events, None) is not None)


def _read_quickly(body: bytes) -> list[Block] | None:
    """Return the blocks of a stream, or None if it is not written as most are.

    None if some deltas are not of the usual kinds, a start is not on one line, or two starts have the
    same index, since their deltas must be distinguished."""
    found = [] if b"\r" in body else _PLAIN_DELTA.findall(body)
    if len(found) != body.count(_DELTA):
        return None
    reader = ContentReader()
    starts = list(_list_starts(body))
    indexes = {repr(start.get("index")) for start in starts}
    if len(indexes) != body.count(_START):
        return None
    for document in starts:
        reader.read("content_block_start", document)
    parts: defaultdict[tuple[bytes, bytes], list[bytes]] = defaultdict(list)
    for index, name, part in found:
        parts[index, name].append(part)
    for (index, name), each in parts.items():
        reader.read_text(int(index), name.decode(), decode_string(b"".join(each)))
    return reader.blocks


def _list_starts(body: bytes) -> Iterator[dict[str, object]]:
    place = body.find(_START)
    while place >= 0:
        begin = body.rfind(b"\n", 0, place) + 1
        end = body.find(b"\n", place)
        line = body[begin : end if end >= 0 else len(body)]
        if line.startswith(_DATA) and (document := parse_object(line.removeprefix(_DATA))):
            yield document
        place = body.find(_START, begin + len(line))


def _read_change(kind: str, document: Fields) -> Change | None:
    if kind == "content_block_start":
        return Change(document.get("index"), True, as_object(document.get("content_block")))
    if kind == "content_block_delta":
        return Change(document.get("index"), False, as_object(document.get("delta")))
    return None


def _add(block: Block, name: str, text: str) -> None:
    if text:
        block.fields.setdefault("type", _KINDS.get(name, "text"))
        block.add(name, text)


def _is_index(value: object) -> TypeGuard[int]:
    """Return whether ``value`` is the number of a block that is read: from 0 to below ``MAX_BLOCKS``.

    Without an upper bound there are numbers that all collide in a dict."""
    return type(value) is int and 0 <= value < MAX_BLOCKS
