"""The parts of a request that are compared: tools, blocks of the system prompt, messages, settings."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from conversations.unit import SETTINGS, Unit
from conversations.units import (
    MCP_SERVER,
    TOOL,
    WEB_SEARCH,
    Prompt,
    list_front_units,
    read_prompt,
)
from conversations.wording import find_block
from metering.formats import format_count
from wire.block import Block, without_marker
from wire.json_reading import as_text
from wire.request import Message, Request

MAX_SETTINGS, MAX_DEPTH = 300, 4
_LABELS = {
    "text": "Text",
    "tool_use": "Tool call",
    "tool_result": "Tool result",
    "thinking": "Thinking",
    "image": "Image",
    "document": "Document",
    SETTINGS: "Settings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One block. Blocks with the same content have the same ``digest``; ``order`` is a digest of the order
    of keys."""

    label: str
    digest: bytes
    order: bytes
    block: Block

    @property
    def text(self) -> str:
        """Return the text of the block that is compared word by word."""
        return _read_text(self.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A tool, a block of the system prompt, or a message with its blocks. ``name`` tells its position in
    its request; items with the same ``match_key`` may be versions of each other."""

    name: str
    match_key: str
    parts: tuple[Part, ...]

    @property
    def key(self) -> tuple[str, *tuple[bytes, ...]]:
        return self.match_key, *(part.digest for part in self.parts)

    @property
    def order(self) -> tuple[bytes, ...]:
        return tuple(part.order for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParts:
    """A request as the parts that are compared. ``markers`` are the places of its cache breakpoints, with
    lifetimes."""

    tools: tuple[Item, ...]
    system: tuple[Item, ...]
    messages: tuple[Item, ...]
    settings: Mapping[str, str]
    markers: tuple[str, ...]


def take_apart(request: Request) -> RequestParts:
    """Return the parts of a request for a comparison. Never raises."""
    prompt = read_prompt(request)
    return RequestParts(
        tools=tuple(_list_tools(request, prompt)),
        system=tuple(
            Item(
                name=f"System block {unit.block + 1}",
                match_key="",
                parts=(_make_part("", unit, find_block(request, unit)),),
            )
            for unit in prompt.units
            if unit.level == "system" and unit.kind != WEB_SEARCH
        ),
        messages=tuple(_list_messages(request, prompt)),
        settings=dict(_list_settings(request.settings)),
        markers=tuple(
            f"{_name_place(request, prompt.units[marker.place])} ({marker.ttl})"
            for marker in prompt.markers
        ),
    )


def _read_text(block: Block) -> str:
    """Return the text of a block, or its JSON with sorted keys and without cache markers."""
    match block.kind:
        case "text" | "thinking" as name:
            return block.text(name)
        case "tool_result":
            return "\n".join(map(_read_part, block.list_parts()))
        case "tool_use":
            return f"{block.name} {_write(block.input)}"
    return _write(_shorten(block))


def _read_part(part: Block) -> str:
    return part.text() if "text" in part.fields else _write(_shorten(part))


def _shorten(block: Block) -> object:
    """Return a block without its cache marker, with the length of base64 data in place of the data."""
    if not isinstance(block.value, dict):
        return block.value
    bare = without_marker(block.fields)
    source = bare.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        bare["source"] = source | {
            "data": f"({format_count(len(as_text(source.get('data'))))} characters)"
        }
    return bare


def _list_tools(request: Request, prompt: Prompt) -> Iterator[Item]:
    """Yield all tools in their order, including those with deferred loading, then the MCP servers."""
    units = {unit.block: unit for unit in prompt.units if unit.kind in (TOOL, WEB_SEARCH)}
    for place, tool in enumerate(request.tools):
        name = tool.name or tool.kind or f"number {place + 1}"
        unit = units.get(place)
        if unit is None:  # deferred, so no part of the prompt
            unit = list_front_units(Request({"tools": [tool.load().value]}))[0]
            name += ", deferred"
        yield Item(name=f"Tool {name}", match_key=name, parts=(_make_part("", unit, tool),))
    servers = [unit for unit in prompt.units if unit.kind == MCP_SERVER]
    for unit, server in zip(servers, request.mcp_servers, strict=True):
        part = _make_part("", unit, server)
        yield Item(name=f"MCP server {server.name}", match_key=f"mcp {server.name}", parts=(part,))


def _list_messages(request: Request, prompt: Prompt) -> Iterator[Item]:
    units = (unit for unit in prompt.units if unit.level == "messages")
    grouped = {number: list(group) for number, group in groupby(units, lambda unit: unit.message)}
    for number, message in enumerate(request.messages):
        parts = tuple(
            _make_part(_LABELS.get(unit.kind, unit.kind), unit, block)
            for unit, block in zip(grouped.get(number, ()), _list_blocks(message), strict=True)
        )
        role = message.role or "no role"
        yield Item(name=f"Message {number + 1}, {role}", match_key=role, parts=parts)


def _list_blocks(message: Message) -> list[Block]:
    """Return the blocks of a message, one for each unit, and its settings as the last one if it has any."""
    settings = [Block(message.settings)] if message.settings else []
    return [*message.blocks, *settings]


def _make_part(label: str, unit: Unit, block: Block | None) -> Part:
    return Part(label=label, digest=unit.digest, order=unit.order, block=block or Block(None))


def _name_place(request: Request, unit: Unit) -> str:
    if unit.level == "messages":
        return f"message {unit.message + 1}, block {unit.block + 1}"
    if unit.kind in (TOOL, WEB_SEARCH):
        tool = find_block(request, unit)
        return f"tool {(tool and tool.name) or unit.block + 1}"
    return f"system block {unit.block + 1}"


def _list_settings(settings: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the fields outside the prompt, as path and text. Nested fields have paths like
    ``thinking.type``."""
    for n, (path, value) in enumerate(_flatten(settings, "", 0)):
        if n == MAX_SETTINGS:
            return
        yield path, value if isinstance(value, str) else _write(value)


def _flatten(value: object, path: str, depth: int) -> Iterator[tuple[str, object]]:
    named: Sequence[tuple[str, object]] = ()
    if depth < MAX_DEPTH and isinstance(value, dict):
        named = list(value.items())
    elif depth < MAX_DEPTH and isinstance(value, list):
        named = [(str(n), each) for n, each in enumerate(value, 1)]
    if not named:
        yield path, value
    for name, each in named:
        yield from _flatten(each, f"{path}.{name}" if path else name, depth + 1)


def _write(value: object) -> str:
    try:
        return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str)
    except RecursionError:
        return "(nested too deeply to be shown)"
