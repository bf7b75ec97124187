"""A response parsed from its JSON document, or assembled from its SSE events.

A stream that was cut has the blocks that arrived, the last one as far as it arrived, and is marked as
cut.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import TypeGuard

from dashboard.call.blocks.joining import find_calls, join_results
from dashboard.call.blocks.reading import read_content
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Block, short
from dashboard.call.conversation import MAX_CHARS
from dashboard.call.excerpts import EMPTY, Allowance, Excerpt
from wire.json_reading import as_list, as_object, as_text, parse_json, parse_object
from wire.sse import BYTE_ORDER_MARK, Event, looks_like_sse, parse_events

MAX_EVENTS = 150_000
MAX_STREAM_BYTES = 24 << 20
MAX_BLOCKS = 10_000
_FACTS = (
    ("id", "Message"),
    ("model", "Model"),
    ("stop_reason", "Stop reason"),
    ("stop_sequence", "Stop sequence"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageResponse:
    """A response to be displayed. ``is_cut``: its end is missing. ``is_beginning``: it is too long,
    and only its beginning was parsed. ``error`` is the type and text of an upstream error, ``content``
    the blocks as upstream sent them, or would have without a stream, ``address`` that of the body."""

    content: list[object] = field(default_factory=list)
    address: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    blocks: tuple[Block, ...] = ()
    usage: Excerpt = EMPTY
    error: tuple[str, Excerpt] | None = None
    is_cut: bool = False
    is_beginning: bool = False


def parse_response(
    body: bytes,
    max_chars: int = MAX_CHARS,
    max_events: int = MAX_EVENTS,
    address: str = "",
    *,
    is_plain: bool = False,
) -> MessageResponse | None:
    """Return the response in a body, or None if it is not a message, an error or a stream of these.
    ``address`` is that of the body, ``is_plain`` that of ``Room``. Never raises."""
    room = Room(allowance=Allowance(max_chars), address=address, is_plain=is_plain)
    start = body[:64].removeprefix(BYTE_ORDER_MARK).lstrip()
    if start.startswith(b"{"):
        document = parse_object(body)
        return None if document is None else _read_document(document, room)
    if not looks_like_sse(body):
        return None
    stream = _Stream()
    events = parse_events(body[:MAX_STREAM_BYTES])
    for event in islice(events, max_events):
        stream.read(event)
    stream.is_beginning = len(body) > MAX_STREAM_BYTES or next(events, None) is not None
    return stream.finish(room)


def _read_document(document: dict[str, object], room: Room) -> MessageResponse | None:
    if document.get("type") == "error" or isinstance(document.get("error"), dict):
        return MessageResponse(error=_read_error(document, room.allowance))
    if "content" not in document:
        return None
    return _make(document, as_list(document["content"]), room)


def _make(
    message: dict[str, object],
    content: list[object],
    room: Room,
    *,
    error: tuple[str, Excerpt] | None = None,
    is_cut: bool = False,
    is_beginning: bool = False,
) -> MessageResponse:
    facts = [(label, short(message.get(key))) for key, label in _FACTS]
    usage = message.get("usage")
    room.calls = find_calls([{"content": content}])
    (blocks,) = join_results([read_content(content, room)])
    return MessageResponse(
        facts=tuple(fact for fact in facts if fact[1]),
        usage=EMPTY if not usage else Allowance(20_000).take_json(usage),
        content=content,
        address=room.address,
        blocks=blocks,
        error=error,
        is_cut=is_cut,
        is_beginning=is_beginning,
    )


def _read_error(document: dict[str, object], allowance: Allowance) -> tuple[str, Excerpt]:
    error = as_object(document.get("error"))
    message = error.get("message")
    excerpt = allowance.take(message) if isinstance(message, str) else allowance.take_json(document)
    return short(error.get("type")) or "error", excerpt


@dataclass(slots=True)
class _Stream:
    """The state of a stream after the events so far. Values that a delta adds to are kept as the
    lists of their parts, and citations are added to one list: joining at each of a hundred
    thousand would take quadratic time."""

    message: dict[str, object] = field(default_factory=dict)
    usage: dict[str, object] = field(default_factory=dict)
    blocks: dict[int, dict[str, object]] = field(default_factory=dict)
    parts: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    error: dict[str, object] | None = None
    is_known: bool = False
    is_ended: bool = False
    is_beginning: bool = False

    def read(self, event: Event) -> None:
        document = parse_object(event.data)
        if document is None:
            if event.name == "error":
                self.error = {}
            return
        match document.get("type") or event.name:
            case "message_start":
                self.is_known = True
                self._read_message(as_object(document.get("message")))
            case "content_block_start":
                self._start(document)
            case "content_block_delta":
                self._add(document)
            case "message_delta":
                self._read_message(as_object(document.get("delta")) | _only(document, "usage"))
            case "message_stop":
                self.is_known = self.is_ended = True
            case "error":
                self.error = document

    def finish(self, room: Room) -> MessageResponse | None:
        error = None if self.error is None else _read_error(self.error, Allowance(20_000))
        if not (self.is_known or self.blocks or error):
            return None
        for (index, name), parts in self.parts.items():
            self._put_together(self.blocks[index], name, "".join(parts))
        blocks: list[object] = [self.blocks[index] for index in sorted(self.blocks)]
        return _make(
            self.message | _only({"usage": self.usage}, "usage"),
            blocks,
            room,
            error=error,
            is_cut=not (self.is_ended or self.is_beginning) and error is None,
            is_beginning=self.is_beginning,
        )

    def _read_message(self, said: dict[str, object]) -> None:
        self.usage |= {k: v for k, v in as_object(said.get("usage")).items() if v is not None}
        self.message |= {k: v for k, v in said.items() if k != "usage" and v is not None}

    def _start(self, document: dict[str, object]) -> None:
        index = document.get("index")
        if _is_index(index):
            self.blocks[index] = dict(as_object(document.get("content_block")))

    def _add(self, document: dict[str, object]) -> None:
        """Add a delta to its block. Each kind of delta names what it adds to: ``text``,
        ``thinking``, ``signature``, …. Two do not: pieces of a tool's input, and citations."""
        index = document.get("index")
        if not _is_index(index):
            return
        block = self.blocks.setdefault(index, {})  # its start may be what was lost
        delta = as_object(document.get("delta"))
        if "citation" in delta:
            if not isinstance(citations := block.get("citations"), list):
                citations = block["citations"] = []
            citations.append(delta["citation"])
            return
        for name, value in delta.items():
            if name != "type" and isinstance(value, str) and value:
                block.setdefault("type", _TYPES.get(as_text(delta.get("type")), "text"))
                self.parts.setdefault((index, name), []).append(value)

    def _put_together(self, block: dict[str, object], name: str, joined: str) -> None:
        if name == "partial_json":
            parsed = parse_json(joined.encode("utf-8", "surrogatepass"))
            block["input"] = joined if parsed is None else parsed
        else:
            block[name] = as_text(block.get(name)) + joined


_TYPES = {"thinking_delta": "thinking", "input_json_delta": "tool_use"}


def _is_index(value: object) -> TypeGuard[int]:
    """Return whether it is the place of a block that is read. Blocks are numbered from 0 on; without an
    upper bound there are numbers of which a dict takes each for all others before it compares them."""
    return isinstance(value, int) and 0 <= value < MAX_BLOCKS


def _only(document: dict[str, object], key: str) -> dict[str, object]:
    return {key: document[key]} if document.get(key) else {}
