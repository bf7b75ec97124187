"""Views of a request: its settings, system prompt, tools and messages.

A page shows some of the messages, and their text is limited too. Messages are taken from the last one
backwards, because the last ones are new in this call.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.call.blocks.reading import join_results, read_content
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Block, Text, cache_note, short
from dashboard.call.excerpts import Allowance, Excerpt
from wire import request as wire
from wire.block import OF_TOOL, find_calls
from wire.json_reading import as_text

MAX_CHARS = 1_000_000
MAX_MESSAGES = 50  # on one page
_MAX_SETTING_CHARS = 2_000
_MAX_LINE_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the model may call. ``schema`` is its input schema, or all its other fields as JSON."""

    name: str
    notes: tuple[str, ...]
    description: Text | None
    schema: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The part of a request before its messages. ``tools`` are those that there is room for,
    ``tool_count`` the number of all."""

    settings: tuple[tuple[str, Excerpt], ...]
    system: tuple[Block, ...]
    tools: tuple[Tool, ...]
    tool_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a request. ``number`` counts from 1. ``moved`` counts the results that are shown at
    their tool calls."""

    number: int
    role: str
    blocks: tuple[Block, ...]
    moved: int


def parse_request(body: bytes) -> wire.Request | None:
    """Parse a body as a request of the Messages API; None if it is anything else. Never raises."""
    request = wire.Request.parse(body)
    return request if request is not None and request.has_messages else None


def read_front(request: wire.Request, room: Room) -> Front:
    """Return the views of settings, system prompt and tools of a request."""
    return Front(
        settings=tuple(
            (short(key), _read_setting(value, room.allowance))
            for key, value in list(request.settings.items())[:100]
        ),
        system=read_content(request.system_content, room, "s"),
        tools=_read_tools(request.tools, room),
        tool_count=len(request.tools),
    )


def read_messages(
    given: Sequence[wire.Message], room: Room, first: int = 1, last: int | None = None
) -> tuple[Message, ...]:
    """Return the views of messages ``first`` to ``last`` (from 1), with tool results at their calls.

    If there is no room for all of them, the last ones are returned."""
    room.calls = find_calls(message.content for message in given)
    read: list[tuple[int, str, tuple[Block, ...]]] = []
    for number in range(min(last or len(given), len(given)), max(first, 1) - 1, -1):
        if room.allowance.is_used_up:
            break
        message = given[number - 1]
        blocks = read_content(message.content, room, str(number - 1))
        room.allowance.take("")
        read.append((number, short(message.role) or "?", blocks))
    read.reverse()
    joined = join_results([blocks for _, _, blocks in read])
    return tuple(
        Message(number=number, role=role, blocks=blocks, moved=len(before) - len(blocks))
        for (number, role, before), blocks in zip(read, joined, strict=True)
    )


def _read_setting(value: object, allowance: Allowance) -> Excerpt:
    allowed = Allowance(min(_MAX_SETTING_CHARS, allowance.left))
    text, left_out = allowed.take(value) if isinstance(value, str) else allowed.take_json(value)
    allowance.take(text)
    if not isinstance(value, str) and len(text) < _MAX_LINE_CHARS:
        text = " ".join(line.strip() for line in text.splitlines())
    return Excerpt(text, left_out)


def _read_tools(given: Sequence[wire.Tool], room: Room) -> tuple[Tool, ...]:
    tools = []
    for item in given:
        if room.allowance.is_used_up:
            break
        tool = item.fields if isinstance(item.value, dict) else {"": item.value}
        notes = (short(item.kind),) if item.kind not in ("", "custom") else ()
        rest = {key: value for key, value in tool.items() if key not in OF_TOOL}
        description = as_text(tool.get("description"))
        tools.append(
            Tool(
                name=short(item.name) or short(item.kind) or "?",
                notes=notes + cache_note(tool),
                description=room.prose(description) if description else None,
                schema=room.json(rest["input_schema"] if set(rest) == {"input_schema"} else rest),
            )
        )
    return tuple(tools)
