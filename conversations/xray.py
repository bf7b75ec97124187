"""The contents of a request: spans of its body by category, which add up to its length exactly.

Content that the model reads has a category: each tool, the system prompt, texts, tool calls and
results, thinking, images, documents. Within user messages, reminders of the client and memory files
that it inserts have categories of their own. Everything else is the envelope: keys, punctuation,
ids, cache markers, signatures, settings. Spans are bytes as they were sent, so an escaped character
counts as its escape. ``conversations.token_shares`` estimates the tokens of spans."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from wire.json_places import JsonText, Place
from wire.request import ATTRIBUTION
from wire.request_places import MAX_NAME_CHARS, PlacedBlock, list_blocks, place_request

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

_TEXTS: dict[str, Category] = {
    "user": "user_text",
    "assistant": "assistant_text",
    "system": "system_message",
}
_MEDIA: dict[str, Category] = {
    "image": "image",
    "document": "document",
    "search_result": "document",
}
_SOURCES = ("image", "document")  # are told apart within results too
_REMINDER, _REMINDER_END = b"<system-reminder>", b"</system-reminder>"
# How Claude Code heads the memory files that it puts into a reminder: path, a few words, colon. Without the
# limits each beginning would look through all the others after it.
_MEMORY = re.compile(rb"Contents of ([^\\\" ]{1,4096}+)[^\\\":]{0,200}+:")
_MCP = re.compile(r"mcp__(.+?)__")


class Span(NamedTuple):
    """A range of bytes of a body. ``name`` is that of the tool or memory file.

    ``message`` and ``block`` count from 0. ``message`` is None outside of messages; ``block`` is the
    number of a tool or of a block of the system prompt or message, None if that is a single text."""

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
        """Return the MCP server in the name of a tool, or None."""
        found = _MCP.match(self.name or "")
        return found[1] if found else None


def list_spans(body: bytes) -> list[Span]:
    """Return the spans of a request body in order, without gaps. Never raises.

    A body that is not valid JSON, or takes too long to parse, is a single span ``unread``."""
    if not body:
        return []
    text = place_request(body)
    if text is None:
        return [Span(0, len(body), "unread")]
    spans: list[Span] = []
    end = 0
    for span in _list_contents(text):
        if span.end <= span.start:
            continue
        if span.start > end:
            spans.append(Span(end, span.start, "envelope"))
        spans.append(span)
        end = span.end
    if end < len(body):
        spans.append(Span(end, len(body), "envelope"))
    return spans


def _list_contents(text: JsonText) -> Iterator[Span]:
    """Yield the spans outside of the envelope, in order."""
    names: dict[str, str] = {}
    for block in list_blocks(text):
        for span in _SORT[block.parent.section](block, names):
            yield span._replace(message=block.parent.message, block=block.number)


def _sort_tool(block: PlacedBlock, _: object) -> Iterator[Span]:
    """Yield the span of a tool: its whole definition, including a cache marker."""
    name = block.name or block.kind or None
    category: Category = "deferred_tool" if block.is_deferred else "tool"
    yield Span(*block.place, category, name)


def _sort_system(block: PlacedBlock, _: object) -> Iterator[Span]:
    words = block.words
    if words is not None:
        is_attribution = block.number == 0 and block.parent.text.body.startswith(
            ATTRIBUTION.encode(), words.start + 1
        )
        yield _inner(words, "attribution" if is_attribution else "system")


def _sort_block(block: PlacedBlock, names: dict[str, str]) -> Iterator[Span]:
    """Yield the spans of a block of a message. ``names`` has the names of tools by the ids of tool calls."""
    content = block.content
    if content is None:
        return
    if block.kind == "text":
        yield from _sort_words(
            block.parent.text, content, _TEXTS.get(block.parent.role, "user_text")
        )
    elif block.is_call:
        name = block.name
        if name and block.call_id:
            names[block.call_id] = name
        yield Span(*content, "tool_call", name or None)
    elif block.is_result:
        yield from _sort_result(block, content, names.get(block.call_id))
    elif block.kind in _MEDIA:
        yield Span(*content, _MEDIA[block.kind])
    else:
        yield _inner(content, "thinking")


def _sort_result(block: PlacedBlock, content: Place, name: str | None) -> Iterator[Span]:
    """Yield the spans of a tool result: its texts, images and documents."""
    if block.parent.text.is_kind(content, b"{"):  # of a tool that upstream runs
        yield Span(*content, "tool_result", name)
    for part in block.list_parts():
        if part.kind == "text" and part.content is not None:
            yield _inner(part.content, "tool_result", name)
        elif part.kind in _SOURCES and part.content is not None:
            yield Span(*part.content, _MEDIA[part.kind], name)
        else:
            yield Span(*part.place, "tool_result", name)


_SORT = {"tools": _sort_tool, "system": _sort_system, "messages": _sort_block}


def _sort_words(text: JsonText, words: Place, category: Category) -> Iterator[Span]:
    """Yield the spans of a text; in a user's text, reminders and memory files are separate spans."""
    body, whole = text.body, _inner(words, category)
    if category != "user_text" or not text.is_kind(words, b'"'):
        yield whole
        return
    here = whole.start
    while (start := body.find(_REMINDER, here, whole.end)) >= 0:
        found = body.find(_REMINDER_END, start, whole.end)
        end = found + len(_REMINDER_END) if found >= 0 else whole.end
        yield Span(here, start, category)
        yield from _sort_reminder(body, start, end)
        here = end
    yield Span(here, whole.end, category)


def _sort_reminder(body: bytes, start: int, end: int) -> Iterator[Span]:
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
    """Return the span of a JSON string without its quotes."""
    return Span(place.start + 1, place.end - 1, category, name)
