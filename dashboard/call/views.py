"""The parts of a page of a call that are made from its bodies, each read and parsed once.

A ``View`` is one part: the new messages, some earlier ones, the settings before them, the response, or a
block. If a body cannot be parsed, its view has the raw body.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dashboard.call.addresses import Address, body_address
from dashboard.call.blocks.reading import read_block, read_content
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Block, Text
from dashboard.call.bodies import Raw, make_raw, read_raw
from dashboard.call.conversation import (
    MAX_CHARS,
    MAX_MESSAGES,
    Front,
    Message,
    parse_request,
    read_front,
    read_messages,
)
from dashboard.call.excerpts import Allowance
from dashboard.call.files import EmbeddedFile, find_block, find_file
from dashboard.call.latest import Latest, find_latest
from dashboard.call.lookup import GAPS, size_of
from dashboard.call.response import MessageResponse, parse_response
from store.traces.calls import predecessors
from store.traces.calls.call_reader import Call, CallReader, Side
from store.traces.calls.threads import read_whole_request
from wire import request as wire
from wire.block import find_calls
from wire.json_reading import as_list, as_object, as_text
from wire.title import find_asked, is_reminder

MAX_PAGE_BYTES = 4 << 20  # of a body that is part of the page of its call
MAX_READ_BYTES = 48 << 20
MAX_PAGE_CHARS = 300_000  # of the new messages, and of the response
MAX_BLOCK_CHARS = 4_000_000
_FRONT_SHARE = 4  # of a page with messages, at most: one in so many

type Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One part of a call's page; fields that do not apply are None. ``earlier`` is the range of the
    messages before those shown. ``sent`` is the number of messages that a call of a message thread sent
    itself, and ``gap`` says why the earlier messages of the thread are missing."""

    address: str
    latest: Latest | None = None
    messages: tuple[Message, ...] | None = None
    message_count: int = 0
    earlier: Range | None = None
    sent: int | None = None
    gap: str | None = None
    front: Front | None = None
    front_words: str = ""
    response: MessageResponse | None = None
    block: Block | None = None
    json: Text | None = None
    raw: Raw | None = None
    is_too_large: bool = False

    @property
    def result_count(self) -> int:
        """Return the number of tool results in the messages."""
        messages = self.messages or ()
        blocks = (block for message in messages for block in message.blocks)
        return sum(block.result is not None or block.kind == "result" for block in blocks)


def open_new(call: Call, reader: CallReader, *, is_plain: bool = False) -> View:
    """Return a view of the messages that are new in a call. ``is_plain``: without Markdown, colours,
    differences.

    Raises sqlite3.Error, MissingPieceError."""
    address = body_address(call.id, "request")
    request, refusal = _open_request(call, reader, MAX_PAGE_BYTES)
    if request is None:
        return refusal
    given = request.messages
    sent = refusal.sent
    if refusal.gap is not None:  # what it sent itself is all there is
        latest = Latest(previous_id=call.predecessor_id)
    elif sent is not None:
        latest = Latest(first=len(given) - sent + 1, previous_id=call.predecessor_id)
    else:
        latest = find_latest(call, given, reader)
    room = Room(allowance=Allowance(MAX_PAGE_CHARS), address=address, is_plain=is_plain)
    view = _show_messages(address, given, latest.first, len(given), room)
    return replace(
        view,
        latest=latest,
        sent=sent,
        gap=refusal.gap,
        earlier=_end_before(view.messages, latest.first),
        front_words=_describe_front(request),
    )


def open_asked(call: Call, reader: CallReader, *, is_plain: bool = False) -> View:
    """Return a view of the message that the title of a call is from, without messages if there is none.

    Tool results and reminders of the client are left out. ``is_plain``: without Markdown, colours,
    differences. Raises sqlite3.Error, MissingPieceError."""
    address = body_address(call.id, "request")
    request, refusal = _open_request(call, reader, MAX_PAGE_BYTES)
    if request is None:
        return refusal
    given = request.messages
    place = find_asked([{"role": each.role, "content": each.content} for each in given])
    if place is None:
        return View(address=address, messages=())
    room = Room(allowance=Allowance(MAX_PAGE_CHARS), address=address, is_plain=is_plain)
    found = read_messages(given, room, place + 1, place + 1)
    asked = tuple(
        replace(each, blocks=tuple(filter(_is_asked, each.blocks)), moved=0) for each in found
    )
    return View(address=address, messages=asked, message_count=len(given))


def _is_asked(block: Block) -> bool:
    """Return whether a block of the message is from a person: no tool result, no reminder of the client."""
    if block.kind == "text":
        source = block.source
        return not is_reminder(
            source if isinstance(source, str) else as_text(as_object(source).get("text"))
        )
    return block.kind != "result"


def open_response(call: Call, reader: CallReader, *, is_plain: bool = False) -> View:
    """Return a view of the response of a call. ``is_plain``: without Markdown, colours, differences.

    Raises sqlite3.Error, MissingPieceError."""
    return _open_response(call, reader, MAX_PAGE_BYTES, MAX_PAGE_CHARS, is_plain=is_plain)


class Answer(NamedTuple):
    """The response of a call as a later call sent it back: the message, the address of that call's
    request, and its row id."""

    message: Message
    address: str
    next_id: int

    @property
    def results(self) -> list[Block]:
        """Return the tool results in the response, failed ones first."""
        found = [block.result for block in self.message.blocks if block.result is not None]
        return sorted(found, key=lambda block: not block.is_error)


def find_answer(usage_id: int, reader: CallReader, *, is_plain: bool) -> Answer | None:
    """Return the response of a call as the next call sent it back, None if no call continues it.

    Unlike the response body, it has the results of the tools. ``is_plain``: without Markdown, colours,
    differences. Raises sqlite3.Error, MissingPieceError."""
    for next_id in predecessors.list_next(reader.connection, usage_id):
        call = reader.find_call(next_id)
        new = None if call is None else open_new(call, reader, is_plain=is_plain)
        messages = () if new is None else new.messages or ()
        answer = next((message for message in messages if message.role == "assistant"), None)
        if new is not None and answer is not None:
            return Answer(answer, new.address, next_id)
    return None


def open_view(
    call: Call, asked: Address, reader: CallReader, *, is_plain: bool = False
) -> View | None:
    """Return the view of the part that an address names, None if it was not kept or does not exist.

    ``is_plain``: without Markdown, colours, differences. Raises sqlite3.Error, MissingPieceError."""
    side = asked.side or "request"
    size = size_of(call, side)
    if size is None:
        return None
    address = body_address(call.id, side)
    if asked.view == "raw":
        return View(address=address, raw=read_raw(call, side, reader))
    if asked.view in ("block", "json"):
        return _open_block(call, asked, reader, is_plain=is_plain)
    if side == "response":
        return _open_response(call, reader, MAX_READ_BYTES, MAX_CHARS, is_plain=is_plain)
    request, refusal = _open_request(call, reader, MAX_READ_BYTES)
    if request is None:
        return refusal
    room = Room(allowance=Allowance(MAX_CHARS), address=address, is_plain=is_plain)
    given = request.messages
    if asked.view == "messages":
        return _show_messages(address, given, asked.first, asked.last, room)
    if asked.view == "front":
        return View(address=address, front=read_front(request, room))
    share = Allowance(MAX_CHARS // _FRONT_SHARE)
    front = read_front(request, replace(room, allowance=share))
    view = _show_messages(address, given, 1, len(given), room)
    return replace(view, front=front)


def open_file(call: Call, asked: Address, reader: CallReader) -> EmbeddedFile | None:
    """Return the file at a place in a body, None if there is none. Raises sqlite3.Error,
    MissingPieceError."""
    content = _read_content(call, asked.side or "request", asked.place, reader)
    try:
        return find_file(find_block(content, _parse_place(asked.place)))
    except LookupError:
        return None


def _open_block(call: Call, asked: Address, reader: CallReader, *, is_plain: bool) -> View | None:
    side = asked.side or "request"
    content = _read_content(call, side, asked.place, reader)
    try:
        block = find_block(content, _parse_place(asked.place))
    except LookupError:
        return None
    room = Room(
        allowance=Allowance(MAX_BLOCK_CHARS),
        address=body_address(call.id, side),
        max_chars=MAX_BLOCK_CHARS,
        is_plain=is_plain,
    )
    if asked.view == "json":
        return View(address=room.address, json=room.json(block))
    is_response = side == "response"
    room.calls = find_calls([content] if is_response else map(_get_content, as_list(content)))
    if isinstance(block, str):
        return View(address=room.address, block=read_content(block, room)[0])
    return View(address=room.address, block=read_block(block, room, asked.place))


def _read_content(call: Call, side: Side, place: str, reader: CallReader) -> object:
    """Return the content that ``place`` is an index into: messages, system prompt, or the response's
    blocks."""
    size = size_of(call, side)
    if size is None or not size.is_text or size.length > MAX_READ_BYTES:
        return None
    if side == "response":
        response = parse_response(reader.read_body(call.id, side, size.length), max_chars=0)
        return None if response is None else response.content
    whole = read_whole_request(reader.connection, call.id)
    request = None if whole is None else parse_request(whole.body)
    if request is None:
        return None
    if place.startswith("s."):
        return request.system_content
    return [{"content": message.content} for message in request.messages]


def _get_content(message: object) -> object:
    return as_object(message).get("content")


def _parse_place(place: str) -> list[int]:
    return [int(number) for number in place.removeprefix("s.").split(".")]


def _open_request(
    call: Call, reader: CallReader, max_bytes: int
) -> tuple[wire.Request | None, View]:
    """Return the parsed request and a view with its ``sent`` and ``gap``. If it cannot be parsed: None and
    the view to show instead."""
    refusal = View(address=body_address(call.id, "request"))
    size = call.request
    if size is None or not size.length:
        return None, refusal
    if size.length > max_bytes:
        return None, _show_large(call, "request", reader, max_bytes)
    whole = read_whole_request(reader.connection, call.id) if size.is_text else None
    request = None if whole is None else parse_request(whole.body)
    if whole is None or request is None:
        body = reader.read_body(call.id, "request", size.length)
        return None, replace(refusal, raw=make_raw(body, size))
    gap = None if whole.gap is None else GAPS[whole.gap]
    return request, replace(refusal, sent=whole.sent, gap=gap)


def _open_response(
    call: Call, reader: CallReader, max_bytes: int, max_chars: int, *, is_plain: bool
) -> View:
    address = body_address(call.id, "response")
    size = call.response
    if size is None or not size.length:
        return View(address=address)
    if size.length > max_bytes:
        return _show_large(call, "response", reader, max_bytes)
    body = reader.read_body(call.id, "response", size.length)
    response = None
    if size.is_text:
        response = parse_response(body, max_chars, address=address, is_plain=is_plain)
    return View(
        address=address,
        response=response,
        raw=make_raw(body, size) if response is None else None,
    )


def _show_large(call: Call, side: Side, reader: CallReader, max_bytes: int) -> View:
    """Return a view of a body that is too large for this page: marked as too large, or raw if too large
    for any."""
    if max_bytes < MAX_READ_BYTES:
        return View(address=body_address(call.id, side), is_too_large=True)
    return View(address=body_address(call.id, side), raw=read_raw(call, side, reader))


def _show_messages(
    address: str, given: Sequence[wire.Message], first: int, last: int, room: Room
) -> View:
    last = min(last, len(given))
    messages = read_messages(given, room, max(first, last - MAX_MESSAGES + 1), last)
    return View(
        address=address,
        messages=messages,
        message_count=len(given),
        earlier=_end_before(messages, max(first, 1), start=first),
    )


def _end_before(messages: tuple[Message, ...] | None, first: int, start: int = 1) -> Range | None:
    """Return the range of messages before the first shown one, None if there are none."""
    shown_from = messages[0].number if messages else first
    return (start, shown_from - 1) if shown_from > start else None


def _describe_front(request: wire.Request) -> str:
    """Return what a request has before its messages, in words, as in "System prompt, 12 tools, settings"."""
    tools = request.tools
    words = []
    if request.system_content:
        words.append("system prompt")
    if tools:
        words.append(f"{len(tools)} tool{'s' if len(tools) > 1 else ''}")
    return ", ".join([*words, "settings"]).capitalize()
