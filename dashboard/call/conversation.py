"""A request parsed into settings, system prompt, tools and messages.

The text on a page is limited. The beginning (system prompt and tools, the same in every request of a
session) gets a share of the limit; then messages are taken from the last one backwards, because the
last ones are what this call is about.
"""

from dataclasses import dataclass, replace

from dashboard.call.blocks import Block, cache_note, read_content, short
from dashboard.call.excerpts import Allowance, Excerpt
from metering.json_reading import as_list, as_text, parse_object

MAX_CHARS = 1_000_000
_BEGINNING_SHARE = 4  # the part of a page, at most: one in so many
_OTHER_PLACES = {"system", "tools", "messages"}
_MAX_SETTING_CHARS = 2_000
_MAX_LINE_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the model may call. ``schema`` is that of its input, or all other fields."""

    name: str
    notes: tuple[str, ...]
    description: str
    schema: Excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a request, as a page shows it. ``number`` counts from 1."""

    number: int
    role: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request to be displayed. Tools and messages beyond the allowance are left out; the counts
    include them."""

    settings: tuple[tuple[str, Excerpt], ...]
    system: tuple[Block, ...]
    tools: tuple[Tool, ...]
    tool_count: int
    messages: tuple[Message, ...]
    message_count: int


def parse_request(body: bytes, max_chars: int = MAX_CHARS) -> Conversation | None:
    """Return the conversation of a request body, or None if it is not a message request. Never
    raises."""
    document = parse_object(body)
    if document is None or not isinstance(document.get("messages"), list):
        return None
    whole = Allowance(max_chars)
    beginning_chars = max_chars // _BEGINNING_SHARE
    beginning = Allowance(beginning_chars)
    settings = tuple(
        (short(key), _read_setting(value, beginning))
        for key, value in list(document.items())[:100]
        if key not in _OTHER_PLACES
    )
    system = read_content(document.get("system"), beginning)
    given_tools = as_list(document.get("tools"))
    tools = _read_tools(given_tools, beginning)
    whole.left -= beginning_chars - beginning.left
    given_messages = as_list(document["messages"])
    return Conversation(
        settings=settings,
        system=system,
        tools=tools,
        tool_count=len(given_tools),
        messages=_read_messages(given_messages, whole),
        message_count=len(given_messages),
    )


def _read_setting(value: object, allowance: Allowance) -> Excerpt:
    allowed = Allowance(min(_MAX_SETTING_CHARS, allowance.left))
    text, left_out = allowed.take(value) if isinstance(value, str) else allowed.take_json(value)
    allowance.take(text)
    if not isinstance(value, str) and len(text) < _MAX_LINE_CHARS:
        text = " ".join(line.strip() for line in text.splitlines())
    return Excerpt(text, left_out)


def _read_tools(given: list[object], allowance: Allowance) -> tuple[Tool, ...]:
    tools = []
    for item in given:
        if allowance.is_used_up:
            break
        tool = item if isinstance(item, dict) else {"": item}
        kind = as_text(tool.get("type"))
        notes = (short(kind),) if kind and kind != "custom" else ()
        rest = {
            key: value
            for key, value in tool.items()
            if key not in ("name", "type", "description", "cache_control")
        }
        tools.append(
            Tool(
                name=short(tool.get("name")) or short(kind) or "?",
                notes=notes + cache_note(tool),
                description=allowance.take(as_text(tool.get("description"))).text,
                schema=allowance.take_json(rest.get("input_schema", rest)),
            )
        )
    return tuple(tools)


def _read_messages(given: list[object], allowance: Allowance) -> tuple[Message, ...]:
    messages = []
    names = _find_tool_names(given)
    for number in range(len(given), 0, -1):
        if allowance.is_used_up:
            break
        item = given[number - 1]
        message = item if isinstance(item, dict) else {"content": [item]}
        blocks = _name_results(read_content(message.get("content"), allowance), names)
        allowance.take("")
        messages.append(
            Message(number=number, role=short(message.get("role")) or "?", blocks=blocks)
        )
    return tuple(reversed(messages))


def _find_tool_names(given: list[object]) -> dict[str, str]:
    """Return the name of each tool call by its id, since results have the id alone."""
    calls = (
        block
        for message in given
        if isinstance(message, dict)
        for block in as_list(message.get("content"))
        if isinstance(block, dict) and as_text(block.get("type")).endswith("tool_use")
    )
    return {short(block.get("id")): short(block.get("name")) for block in calls}


def _name_results(blocks: tuple[Block, ...], names: dict[str, str]) -> tuple[Block, ...]:
    return tuple(
        replace(block, name=names[block.notes[0]])
        if block.kind == "result" and block.notes and block.notes[0] in names
        else block
        for block in blocks
    )
