"""The contents of a request: spans of its body by category, which add up to its length exactly.

What the model reads has a category: each tool, the system prompt, texts, tool calls and results, thinking,
images, documents. Within user messages, reminders of the client and the memory files that it puts into
them are told apart. All else is the envelope: keys, punctuation, ids, cache markers, signatures, settings.

Spans are bytes as they were sent, so a character that JSON escapes counts as its escape. How many tokens
a category takes is another question.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import orjson

from conversations.json_spans import JsonText, Place
from wire.block import is_call, is_result
from wire.json_weight import is_light
from wire.request import ATTRIBUTION

type Category = Literal[
    "tool",
    "deferred_tool",
    "system",
    "attribution",
    "memory",
    "reminder",
    "user_text",
    "assistant_text",
    "system_message",
    "tool_call",
    "tool_result",
    "thinking",
    "image",
    "document",
    "envelope",
    "unread",
    "added",  # by upstream, and so in no body: has tokens and no bytes
]

MAX_VALUES = 200_000  # some 0.2 s
MAX_NAME_CHARS = 200
_TEXTS: dict[object, Category] = {
    "user": "user_text",
    "assistant": "assistant_text",
    "system": "system_message",
}
_REMINDER, _REMINDER_END = b"<system-reminder>", b"</system-reminder>"
# How Claude Code heads the memory files that it puts into a reminder: path, a few words, colon. Without the
# limits each beginning would look through all the others after it.
_MEMORY = re.compile(rb"Contents of ([^\\\" ]{1,4096}+)[^\\\":]{0,200}+:")
_MCP = re.compile(r"mcp__(.+?)__")


class Span(NamedTuple):
    """Some bytes of a body. ``name`` is that of the tool or memory file. ``message`` and ``block`` count
    from 0. ``message`` is None outside of messages; ``block`` is the number of a tool or of a block of the
    system prompt or message, None where that is one text."""

    start: int
    end: int
    category: Category
    name: str | None = None
    message: int | None = None
    block: int | None = None

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def server(self) -> str | None:
        """Return the MCP server that a tool belongs to by its name, or None."""
        found = _MCP.match(self.name or "")
        return found[1] if found else None


def list_spans(body: bytes) -> list[Span]:
    """Return the spans of a request body in order, without gaps. Never raises.

    What is not valid JSON, or too much of it to be read quickly, is one span that is ``unread``."""
    if not body:
        return []
    if not is_light(body, MAX_VALUES) or not _is_object(body):
        return [Span(0, len(body), "unread")]
    spans: list[Span] = []
    end = 0
    for span in _list_contents(JsonText(body)):
        if span.end <= span.start:
            continue
        if span.start > end:
            spans.append(Span(end, span.start, "envelope"))
        spans.append(span)
        end = span.end
    if end < len(body):
        spans.append(Span(end, len(body), "envelope"))
    return spans


def _is_object(body: bytes) -> bool:
    try:
        return isinstance(orjson.loads(body), dict)
    except orjson.JSONDecodeError:
        return False


def _list_contents(text: JsonText) -> Iterator[Span]:
    """Yield the spans that are not envelope, in order."""
    names: dict[object, str] = {}
    for name, value in text.list_members(text.find_value()):
        if name == "tools":
            for number, tool in enumerate(text.list_items(value)):
                yield _read_tool(text, tool)._replace(block=number)
        elif name == "system":
            yield from _read_system(text, value)
        elif name == "messages":
            for number, message in enumerate(text.list_items(value)):
                for span in _read_message(text, message, names):
                    yield span._replace(message=number)


def _read_tool(text: JsonText, tool: Place) -> Span:
    """Return the span of a tool: all of its definition, with a cache marker that it may have."""
    fields = dict(text.list_members(tool))
    name = _read_text(text, fields.get("name")) or _read_text(text, fields.get("type"))
    deferred = fields.get("defer_loading")
    is_deferred = deferred is not None and text.read(deferred) is True
    return Span(tool.start, tool.end, "deferred_tool" if is_deferred else "tool", name)


def _read_system(text: JsonText, system: Place) -> Iterator[Span]:
    if text.is_kind(system, b'"'):
        yield _inner(system, "system")
    for number, block in enumerate(text.list_items(system)):
        words = dict(text.list_members(block)).get("text")
        if words is not None and text.is_kind(words, b'"'):
            is_attribution = not number and text.body.startswith(
                ATTRIBUTION.encode(), words.start + 1
            )
            yield _inner(words, "attribution" if is_attribution else "system")._replace(
                block=number
            )


def _read_message(text: JsonText, message: Place, names: dict[object, str]) -> Iterator[Span]:
    fields = dict(text.list_members(message))
    content = fields.get("content")
    if content is None:
        return
    role = _read_text(text, fields.get("role"))
    if text.is_kind(content, b'"'):
        yield from _read_words(text, content, _TEXTS.get(role, "user_text"))
    for number, block in enumerate(text.list_items(content)):
        for span in _read_block(text, block, role, names):
            yield span._replace(block=number)


def _read_block(
    text: JsonText, block: Place, role: str | None, names: dict[object, str]
) -> Iterator[Span]:
    fields = dict(text.list_members(block))
    kind = _read_text(text, fields.get("type")) or ""
    if kind == "text" and "text" in fields:
        yield from _read_words(text, fields["text"], _TEXTS.get(role, "user_text"))
    elif kind == "thinking" and "thinking" in fields:
        yield _inner(fields["thinking"], "thinking")
    elif kind == "redacted_thinking" and "data" in fields:
        yield _inner(fields["data"], "thinking")
    elif is_call(kind) and "input" in fields:
        name = _read_text(text, fields.get("name"))
        if name is not None and (call := _read_text(text, fields.get("id"))) is not None:
            names[call] = name
        yield Span(*fields["input"], "tool_call", name)
    elif is_result(kind) and "content" in fields:
        name = names.get(_read_text(text, fields.get("tool_use_id")))
        yield from _read_result(text, fields["content"], name)
    elif kind in ("image", "document") and "source" in fields:
        yield Span(*fields["source"], "image" if kind == "image" else "document")
    elif kind == "search_result" and "content" in fields:
        yield Span(*fields["content"], "document")


def _read_result(text: JsonText, content: Place, name: str | None) -> Iterator[Span]:
    """Yield the spans of a tool result: its texts, and images and documents as such."""
    if text.is_kind(content, b'"'):
        yield _inner(content, "tool_result", name)
    elif text.is_kind(content, b"{"):  # of a tool that upstream runs
        yield Span(*content, "tool_result", name)
    for part in text.list_items(content):
        fields = dict(text.list_members(part))
        kind = _read_text(text, fields.get("type"))
        if kind == "text" and "text" in fields:
            yield _inner(fields["text"], "tool_result", name)
        elif kind in ("image", "document") and "source" in fields:
            yield Span(*fields["source"], "image" if kind == "image" else "document", name)
        else:
            yield Span(*part, "tool_result", name)


def _read_words(text: JsonText, words: Place, category: Category) -> Iterator[Span]:
    """Yield the spans of a text; of a user's, reminders and memory files apart."""
    body, whole = text.body, _inner(words, category)
    if category != "user_text" or not text.is_kind(words, b'"'):
        yield whole
        return
    here = whole.start
    while (start := body.find(_REMINDER, here, whole.end)) >= 0:
        found = body.find(_REMINDER_END, start, whole.end)
        end = found + len(_REMINDER_END) if found >= 0 else whole.end
        yield Span(here, start, category)
        yield from _read_reminder(body, start, end)
        here = end
    yield Span(here, whole.end, category)


def _read_reminder(body: bytes, start: int, end: int) -> Iterator[Span]:
    heads = list(_MEMORY.finditer(body, start, end))
    close = end - len(_REMINDER_END) if body.endswith(_REMINDER_END, start, end) else end
    yield Span(start, heads[0].start() if heads else end, "reminder")
    for number, head in enumerate(heads):
        last = heads[number + 1].start() if number + 1 < len(heads) else close
        name = head[1].decode("utf-8", "replace")[:MAX_NAME_CHARS]
        yield Span(head.start(), last, "memory", name)
    if heads:
        yield Span(close, end, "reminder")


def _inner(place: Place, category: Category, name: str | None = None) -> Span:
    """Return the span of a text without its quotes."""
    return Span(place.start + 1, place.end - 1, category, name)


def _read_text(text: JsonText, place: Place | None) -> str | None:
    if place is None or not text.is_kind(place, b'"'):
        return None
    value = text.read(place)
    return value[:MAX_NAME_CHARS] if isinstance(value, str) else None
