"""The prompt of a request as units, in the order in which upstream caches it: tools, system, messages.

A unit is one tool, one system block or one block of a message. Two prompts have a prefix in common when
they begin with the same units. What is no part of the prompt is left out: cache markers, metadata,
limits, deferred tools. A text is the same as a list with one text block, because clients write one as
the other when a marker moves.

Each unit has two digests of its content. ``digest`` is of the canonical form, with sorted keys;
``order`` besides tells apart the order of keys where upstream's rules say that it counts: in tools and
in the input of tool calls.

Some settings change the system prompt that upstream makes. Web search is a unit at the beginning of the
system level, so that the tools keep their cache when it is switched on. Other settings are
``Parameters``. What comes from outside may be any JSON, and nothing but ``TooManyUnitsError`` is raised.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import NamedTuple

import orjson

from conversations.parameters import Parameters, read_parameters
from conversations.unit import SETTINGS, Level, Unit
from conversations.unit_runs import DIGEST_BYTES, EMPTY, ORDER_BYTES, UnitRun
from metering.tool_names import split_name
from metering.tool_results import UseResult, read_result
from wire.block import (
    CALL,
    COMPACTION,
    RESULT,
    TEXT,
    THINKING,
    THINKING_KINDS,
    Block,
    CacheTtl,
    as_blocks,
    find_ttl,
    is_call,
    without_marker,
)
from wire.json_reading import as_object, as_text, clean_text
from wire.request import CONTINUATION, Message, Request

NO_MESSAGE = -1
MAX_PROMPT_UNITS = 10_000  # take some 0.2 s
IMAGE_BYTES = 6_000  # an image is some 1,500 tokens, whatever its encoded size
# Kinds of units that are no types of blocks.
TOOL, WEB_SEARCH, MCP_SERVER, ATTRIBUTION_BLOCK, CONTINUED, OTHER = (
    "tool",
    "web_search",
    "mcp_server",
    "attribution",
    "continuation",
    "other",
)
_RUNS = (CALL, RESULT)
_SUMMARY = ("type", "content", "encrypted_content")
_OF_CALL = ("type", "id", "name", "input")
_CITED = ("document", "search_result")
_TOO_DEEP = b"(nested too deeply to be written)"


class TooManyUnitsError(ValueError):
    """A prompt has more units than can be processed quickly."""


class Marker(NamedTuple):
    """A cache marker on the unit at this place."""

    place: int
    ttl: CacheTtl


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class Prompt:
    """The prompt of a request.

    ``run`` is the run of all its units, ``front`` the number of units before the messages.
    ``automatic`` is the lifetime that automatic caching requests; ``previous_message_id`` is the
    message to which upstream should compare."""

    units: Sequence[Unit]
    run: UnitRun
    front: int
    parameters: Parameters
    automatic: CacheTtl | None = None
    previous_message_id: str | None = None

    @property
    def markers(self) -> list[Marker]:
        """Return the cache markers in order, including the one that automatic caching sets."""
        found = [Marker(n, unit.marker) for n, unit in enumerate(self.units) if unit.marker]
        if self.automatic is not None:
            last = self._find_last_markable()
            if last is not None and (not found or found[-1].place != last):
                found = sorted([*found, Marker(last, self.automatic)])
        return found

    @property
    def is_continuation(self) -> bool:
        """Return whether the first message is the summary from a compaction."""
        for unit in islice(self.units, self.front, None):
            if unit.kind == CONTINUED:
                return True
            if unit.message > 0:
                break
        return False

    def count_positions(self) -> list[int]:
        """Return for each unit the number of positions before it, as upstream counts them.

        Upstream limits how many positions it looks back. A run of tool calls is one position, and so is a
        run of tool results."""
        positions: list[int] = []
        position, before = -1, None
        for unit in self.units:
            is_run = before is not None and unit.kind in _RUNS and unit.kind == before.kind
            position += not is_run and unit.kind != SETTINGS
            positions.append(position)
            before = unit
        return positions

    def without_attribution(self) -> "Prompt":
        """Return the prompt without the attribution block of Claude Code.

        This is the prompt that the model gets if upstream is the vendor's own API."""
        places = range(self.front)
        place = next((n for n in places if self.units[n].kind == ATTRIBUTION_BLOCK), None)
        if place is None:
            return self
        units = [*self.units[:place], *self.units[place + 1 :]]
        run = self.run.without(place, self.units[place])
        return replace(self, units=units, run=run, front=self.front - 1)

    def _find_last_markable(self) -> int | None:
        indexes = range(len(self.units) - 1, -1, -1)
        return next((n for n in indexes if self.units[n].is_markable), None)


def read_prompt(request: Request) -> Prompt:
    """Return the prompt of a request as it was sent. Raises TooManyUnitsError."""
    front = list_front_units(request)
    units = [*front, *list_message_units(request.messages, 0)]
    return make_prompt(request.fields, units, len(front), EMPTY.add(units))


def make_prompt(
    settings: Mapping[str, object], units: Sequence[Unit], front: int, run: UnitRun
) -> Prompt:
    """Return the prompt with these units and the settings of its request.

    ``run`` is the run of the units, of which ``front`` are before the messages."""
    request = Request(settings)
    return Prompt(
        units=units,
        run=run,
        front=front,
        parameters=read_parameters(request, images=run.sums.images, cites=run.sums.cites),
        automatic=request.ttl,
        previous_message_id=request.diagnosed_message_id,
    )


def continue_prompt(before: Prompt, answer: Message, request: Mapping[str, object]) -> Prompt:
    """Return the whole prompt of a request that sends only the new part of a message thread.

    It consists of the prompt ``before``, the response ``answer`` to it, and the messages of the
    request. Settings and cache markers are the request's own; system prompt and tools are those of the
    thread. Raises TooManyUnitsError."""
    first = before.units[-1].message + 1 if len(before.units) > before.front else 0
    messages = [answer, *Request(request).messages]
    known = [unit._replace(marker=None) if unit.marker else unit for unit in before.units]
    units = [*known, *list_message_units(messages, first)]
    if len(units) > MAX_PROMPT_UNITS:
        raise TooManyUnitsError
    run = before.run.without_markers().add(units[len(known) :])
    return make_prompt(request, units, before.front, run)


def list_failed_tools(prompt: Prompt, first_message: int) -> list[str]:
    """Return the names of tools with a result that is an error, each once.

    Only messages from number ``first_message`` (counted from 0) on are considered."""
    names: dict[str, str] = {}
    failed: list[str] = []
    for unit in reversed(prompt.units):
        if unit.kind == CALL:
            names[unit.tool_use_id] = unit.tool
        elif unit.is_error and unit.message >= first_message:
            failed.append(unit.tool_use_id)
        if unit.message < first_message - 1:
            break
    return list(dict.fromkeys(names[each] for each in reversed(failed) if names.get(each)))


def list_results(prompt: Prompt, answer: int) -> list[UseResult]:
    """Return the known results of the tool uses in the message number ``answer``."""
    behind = takewhile(lambda unit: unit.message >= answer, reversed(prompt.units))
    units = [*behind][::-1]
    uses = [unit for unit in units if unit.message == answer and is_call(unit.kind)]
    places = {use.tool_use_id: place for place, use in enumerate(uses) if use.tool_use_id}
    return [
        UseResult(place, clean_text(split_name(uses[place].tool)[1]), each.result)
        for each in units
        if each.result is not None and (place := places.get(each.tool_use_id)) is not None
    ]


def list_front_units(given: Request) -> list[Unit]:
    """Return the units before the messages: tools and system prompt."""
    tools, searches = [], []
    for block, tool in enumerate(given.tools):
        if tool.is_deferred:
            continue
        if tool.is_web_search:
            searches.append(_make_unit("system", block, WEB_SEARCH, tool.value))
        else:
            tools.append(_make_unit("tools", block, TOOL, tool.value))
    for block, server in enumerate(given.mcp_servers):
        tools.append(_make_unit("tools", block, MCP_SERVER, server.value))
    system = as_blocks(given.system_content)
    if len(tools) + len(searches) + len(system) > MAX_PROMPT_UNITS:
        raise TooManyUnitsError
    return [*tools, *searches, *_list_system_units(system, has_attribution=given.has_attribution)]


def list_message_units(messages: Iterable[Message], first: int) -> list[Unit]:
    """Return the units of messages. ``first`` is the number of the first message."""
    units: list[Unit] = []
    for number, message in enumerate(messages, first):
        blocks = as_blocks(message.content)
        if len(units) + len(blocks) > MAX_PROMPT_UNITS:
            raise TooManyUnitsError
        own = [
            _make_message_unit(number, place, message.role, block)
            for place, block in enumerate(blocks)
        ]
        if message.settings:
            own.append(_make_settings_unit(number, len(blocks), message))
        if message.is_reminder:
            own = [unit._replace(is_reminder=True) for unit in own]
        units += own
    return units


def digest_compaction(block: object) -> bytes:
    """Return the digest of a compaction block, independent of its place.

    Clients send the block back without fields that are null, so these are left out."""
    fields = as_object(block)
    summary = {name: fields[name] for name in _SUMMARY if fields.get(name) is not None}
    return _digest(_begin_digest("", COMPACTION), _write(summary))


def _list_system_units(blocks: Sequence[object], *, has_attribution: bool) -> Iterator[Unit]:
    for place, block in enumerate(blocks):
        kind = ATTRIBUTION_BLOCK if has_attribution and place == 0 else _kind_of(block)
        yield _make_unit("system", place, kind, block)


def _make_message_unit(number: int, place: int, role: str, block: object) -> Unit:
    kind = _kind_of(block)
    if kind == TEXT and isinstance(block, dict):
        text = block.get(TEXT)
        if isinstance(text, str):
            return _make_text_unit(number, place, role, text, find_ttl(block))
    bare, marker, images, surplus, cites = _strip(block)
    if is_call(kind) and isinstance(bare, dict):
        # Clients send a call back without what else upstream said of it.
        bare = {name: bare[name] for name in _OF_CALL if name in bare}
    content = _write(bare)
    if kind == COMPACTION:
        digest = digest_compaction(block)
        kind = CONTINUED if number == place == 0 else kind
    else:
        digest = _digest(_begin_digest(role, kind), content)
    size = len(content) - surplus
    if kind in THINKING_KINDS:
        size = len(as_text(as_object(block).get(THINKING)))
    order = _digest_order(bare, content, digest) if is_call(kind) else digest[:ORDER_BYTES]
    tool, tool_use_id, result = "", "", None
    if kind in _RUNS:
        value = Block(block)
        tool_use_id = value.call_id
        if kind == CALL:
            tool = value.name
        else:
            result = read_result(value)
    return Unit(
        "messages",
        number,
        place,
        role,
        kind,
        digest,
        order,
        size,
        marker,
        images,
        cites,
        tool,
        tool_use_id,
        result,
    )


def _make_settings_unit(number: int, place: int, message: Message) -> Unit:
    """Return the unit of the settings of a message, which comes after its blocks."""
    content = _write(message.settings)
    digest = _digest(_begin_digest(message.role, SETTINGS), content)
    order = digest[:ORDER_BYTES]
    return Unit("messages", number, place, message.role, SETTINGS, digest, order, 0, None, 0, False)


def _make_text_unit(number: int, place: int, role: str, text: str, marker: CacheTtl | None) -> Unit:
    """Return the unit of a text. No JSON is written for it, since most of a long prompt is text."""
    content = text.encode("utf-8", "surrogatepass")
    digest = _digest(_begin_digest(role, TEXT), content)
    is_continued = number == 0 and text.lstrip().startswith(CONTINUATION)
    kind = CONTINUED if is_continued else TEXT
    order = digest[:ORDER_BYTES]
    return Unit(
        "messages", number, place, role, kind, digest, order, len(content), marker, 0, False
    )


def _make_unit(level: Level, place: int, kind: str, block: object) -> Unit:
    bare, marker, images, surplus, cites = _strip(block)
    content = _write(bare)
    digest = _digest(level.encode(), content)
    order = _digest_order(bare, content, digest) if level == "tools" else digest[:ORDER_BYTES]
    return Unit(
        level,
        NO_MESSAGE,
        place,
        "",
        kind,
        digest,
        order,
        len(content) - surplus,
        marker,
        images,
        cites,
    )


class _Stripped(NamedTuple):
    bare: object
    marker: CacheTtl | None
    images: int
    surplus: int
    cites: bool


def _strip(block: object, *, is_part: bool = False) -> _Stripped:
    """Return a block, or a part of a tool result, without markers and settings, and these separately.

    Markers are removed where blocks may have them, and not in the input of tools or in schemas, which
    may contain any names."""
    if not isinstance(block, dict):
        return _Stripped(block, None, 0, 0, False)
    bare, marker = without_marker(block), find_ttl(block)
    kind = block.get("type")
    if kind == "image":
        surplus = max(len(Block(block).data) - IMAGE_BYTES, 0)
        return _Stripped(bare, marker, 1, surplus, False)
    if kind in _CITED and isinstance(block.get("citations"), dict):
        cites = as_object(block["citations"]).get("enabled") is True
        bare = {name: value for name, value in bare.items() if name != "citations"}
        return _Stripped(bare, marker, 0, 0, cites)
    if kind == RESULT and "content" in bare and not is_part:
        return _strip_result(bare, marker)
    return _Stripped(bare, marker, 0, 0, False)


def _strip_result(bare: dict[str, object], marker: CacheTtl | None) -> _Stripped:
    if isinstance(bare["content"], str):
        return _Stripped(bare | {"content": as_blocks(bare["content"])}, marker, 0, 0, False)
    parts = [_strip(part, is_part=True) for part in _list_parts(bare["content"])]
    return _Stripped(
        bare | {"content": [part.bare for part in parts]},
        marker or next((part.marker for part in parts if part.marker), None),
        sum(part.images for part in parts),
        sum(part.surplus for part in parts),
        any(part.cites for part in parts),
    )


def _list_parts(content: object) -> list[object]:
    parts = as_blocks(content)
    if len(parts) > MAX_PROMPT_UNITS:
        raise TooManyUnitsError
    return parts


def _kind_of(block: object) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind[:40] if isinstance(kind, str) and kind else OTHER


def _write(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # lone surrogates, or nested deeply
        return _write_leniently(value, sort_keys=True)


def _write_leniently(value: object, *, sort_keys: bool) -> bytes:
    try:
        return json.dumps(value, sort_keys=sort_keys).encode()
    except RecursionError:
        return _TOO_DEEP


def _begin_digest(role: str, kind: str) -> bytes:
    return f"{role}\0{kind}\0".encode("utf-8", "replace")


def _digest(prefix: bytes, content: bytes) -> bytes:
    # Digests are compared within a process alone, so its own keyed hash (SipHash) will do. It takes a quarter
    # of the time of a cryptographic one.
    return hash(prefix + content).to_bytes(DIGEST_BYTES, "little", signed=True)


def _digest_order(bare: object, content: bytes, digest: bytes) -> bytes:
    try:
        written = orjson.dumps(bare)
    except orjson.JSONEncodeError:
        written = _write_leniently(bare, sort_keys=False)
    return digest[:ORDER_BYTES] if written == content else _digest(b"", written)[:ORDER_BYTES]
