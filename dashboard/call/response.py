"""A response body, parsed for display."""

from dataclasses import dataclass, field, replace

from dashboard.call.blocks.reading import join_results, read_content
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Block, short
from dashboard.call.conversation import MAX_CHARS
from dashboard.call.excerpts import EMPTY, Allowance, Excerpt
from metering.upstream_changes import describe_changes
from wire import content
from wire.block import find_calls
from wire.chat_completions import read_chat
from wire.envelope import Envelope, read_envelope
from wire.json_reading import as_list
from wire.sse import looks_like_sse

MAX_STREAM_BYTES = 24 << 20
MAX_JSON_CHARS = 20_000
_FACTS = (
    ("id", "Message"),
    ("model", "Model"),
    ("stop_reason", "Stop reason"),
    ("stop_sequence", "Stop sequence"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageResponse:
    """A response, parsed for display. ``is_cut``: its end is missing. ``is_beginning``: it is too long,
    and only its beginning was parsed. ``error`` is the type and text of an upstream error. ``content``
    has the blocks as upstream sent them, assembled from a stream if it was one; ``address`` is the
    address of the body. ``changes`` says how upstream changed the request, "" if it reports no change."""

    content: list[object] = field(default_factory=list)
    address: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    blocks: tuple[Block, ...] = ()
    usage: Excerpt = EMPTY
    error: tuple[str, Excerpt] | None = None
    changes: str = ""
    is_cut: bool = False
    is_beginning: bool = False


def parse_response(
    body: bytes,
    max_chars: int = MAX_CHARS,
    max_events: int = content.MAX_EVENTS,
    address: str = "",
    *,
    is_plain: bool = False,
) -> MessageResponse | None:
    """Parse a response body; None if it is not a message, an error or a stream of these. Never raises.

    ``address`` is the address of the body. ``is_plain``: texts without Markdown, colours and
    differences."""
    room = Room(allowance=Allowance(max_chars), address=address, is_plain=is_plain)
    if (chat := read_chat(body[:MAX_STREAM_BYTES], max_events)) is not None:
        said = chat.said
        return replace(
            _make(said, list(chat.blocks), room),
            error=_read_error(said, Allowance(MAX_JSON_CHARS)) if said.is_error else None,
            is_cut=not (said.stop_reason or said.is_error),
        )
    said = read_envelope(body)
    if said.is_document:
        if said.is_error or said.error:
            return MessageResponse(error=_read_error(said, room.allowance))
        if "content" not in said.message:
            return None
        return _make(said, as_list(said.message["content"]), room)
    if not looks_like_sse(body):
        return None
    found = content.read_content(body[:MAX_STREAM_BYTES], max_events)
    if not (said.has_start or said.has_end or said.is_error or found.blocks):
        return None
    is_beginning = found.is_beginning or len(body) > MAX_STREAM_BYTES
    return replace(
        _make(said, [block.to_fields() for block in found.blocks], room),
        error=_read_error(said, Allowance(MAX_JSON_CHARS)) if said.is_error else None,
        is_cut=not (said.has_end or is_beginning or said.is_error),
        is_beginning=is_beginning,
    )


def _make(said: Envelope, blocks: list[object], room: Room) -> MessageResponse:
    fields, usage = said.fields, said.usage.fields
    facts = [(label, short(fields.get(key))) for key, label in _FACTS]
    room.calls = find_calls([blocks])
    (displayed,) = join_results([read_content(blocks, room)])
    return MessageResponse(
        facts=tuple(fact for fact in facts if fact[1]),
        usage=Allowance(MAX_JSON_CHARS).take_json(usage) if usage else EMPTY,
        content=blocks,
        address=room.address,
        blocks=displayed,
        changes=describe_changes(said),
    )


def _read_error(said: Envelope, allowance: Allowance) -> tuple[str, Excerpt]:
    message = said.error.get("message")
    if isinstance(message, str):
        excerpt = allowance.take(message)
    else:
        excerpt = allowance.take_json(said.message if said.is_document else said.error)
    return short(said.error.get("type")) or "error", excerpt
