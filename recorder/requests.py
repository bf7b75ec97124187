"""Reading a request's fields (``metering.request_facts``) while parsing only what is new in it.

All are fields of the outermost object, and of a long request nearly all is its messages, which are
merely counted here. So a request is taken in three parts, each made whole and parsed by itself:

    {"model":"m","messages":[    {"role":…},{"role":…},    {"role":…}],"metadata":{}}
    head, closed by ]}           messages, between [ ]     tail, opened by {"name":[

If each of them is JSON, so is the whole, and its fields are those of the head and the tail: the head
ends within an array of the outermost object and in nothing deeper, the messages never leave that
array, and the tail closes it and the object. The gain comes with the next request of a conversation,
which begins with the same bytes: head and old messages are known, and only what is new is parsed.
The same holds for what is found in the bytes of a request rather than in its fields.

What cannot be taken apart like this is parsed as a whole.
"""

import re
import secrets
from typing import NamedTuple

import orjson

from metering.conversation_memory import (
    MIN_BODY_BYTES,
    ConversationMemory,
    Findings,
    Kept,
    guess_key,
    shared_length,
)
from metering.json_reading import MAX_VALUES, parse_object
from metering.json_weight import is_light
from metering.request_facts import (
    CACHE_TTL,
    TITLE,
    CacheTtl,
    Fields,
    find_cache_ttl,
    find_fields,
    find_longest_ttl,
    read_fields,
)
from metering.title import find_title

LARGE_JSON_BYTES = 4 * 1024 * 1024  # a larger one is not remembered
LAST_STARTS, MAX_STARTS = 4, 64  # found in each request; remembered of a conversation
_MESSAGE = re.compile(rb'\{"role": ?"')
_SPACE = b" \t\r\n"
_MESSAGES_END = re.compile(rb'"messages"[ \t\r\n]*:[ \t\r\n]*\[$')
# What the last messages are called when they are parsed with the tail: nobody else can know it.
_LAST = secrets.token_hex()


class _Messages(NamedTuple):
    """The number of some messages, their title, and the longest lifetime of a breakpoint in them."""

    number: int = 0
    title: str | None = None
    cache_ttl: CacheTtl | None = None

    def add(self, messages: list[object], text: bytes) -> "_Messages":
        """Return what is known of these messages and of more, which stand in this text."""
        return _Messages(
            number=self.number + len(messages),
            title=find_title(messages) or self.title,
            cache_ttl=find_longest_ttl(self.cache_ttl, find_cache_ttl(text)),
        )


class _Known(NamedTuple):
    """The result of reading a request, for the next one of its conversation. ``head`` has the
    wanted fields before the messages. At each of ``starts`` a message begins, with ``mark``, and
    before it there are the head and whole messages, which come to ``before``."""

    head: Fields
    mark: bytes
    starts: tuple[int, ...]
    before: tuple[_Messages, ...]


class RequestReader:
    """Returns the wanted fields of requests, and remembers the last request of each conversation."""

    def __init__(self, memory: ConversationMemory | None = None) -> None:
        """Read requests with a memory of conversations, which may be shared with others."""
        # None stands for a conversation whose requests cannot be taken apart.
        self._findings = Findings[_Known | None](memory)

    def read(self, text: bytes, *labels: object) -> Fields:
        """Return what ``find_fields`` finds in the whole request, nothing where that is no object.
        ``labels`` tell conversations apart as far as the caller can."""
        if not MIN_BODY_BYTES <= len(text) <= LARGE_JSON_BYTES:
            return _read_whole(text)
        key = guess_key(text, *labels)
        kept = self._findings.find(key)
        if kept is not None and kept.found is None:
            return _read_whole(text)
        recalled = _recall(text, kept)
        begun = recalled or _read_head(text)
        known = None if begun is None else _read_messages(text, begun)
        tail = None if known is None else _read_tail(text, known)
        if known is not None and tail is not None:
            self._findings.keep(key, text, known)
            return tail
        if recalled is None:
            self._findings.keep(key, b"", None)
        return _read_whole(text)


def _read_whole(text: bytes) -> Fields:
    return read_fields(parse_object(text), text)


def _recall(text: bytes, kept: Kept[_Known | None] | None) -> _Known | None:
    """Return what is known of as much as the last request of the conversation has in common with this."""
    if kept is None or kept.found is None:
        return None
    known = kept.found
    last_start = shared_length(kept.body, text) - len(known.mark)
    starts = tuple(start for start in known.starts if start <= last_start)
    return known._replace(starts=starts, before=known.before[: len(starts)]) if starts else None


def _read_head(text: bytes) -> _Known | None:
    message = _MESSAGE.search(text)
    if message is None or not _MESSAGES_END.search(text[: message.start()].rstrip(_SPACE)):
        return None
    start = message.start()
    head = read_fields(_parse(text[:start] + b"]}"), text[:start])
    return _Known(head, message[0], (start,), (_Messages(),)) if head else None


def _read_messages(text: bytes, known: _Known) -> _Known | None:
    """Return the same with all messages but the last."""
    starts, before = [known.starts[-1]], [known.before[-1]]
    for start in _find_last_starts(text, known.mark, starts[0]):
        messages = text[starts[-1] : start].rstrip(_SPACE)
        parsed = _parse(b"[" + messages[:-1] + b"]") if messages.endswith(b",") else None
        if not isinstance(parsed, list):
            return None
        starts.append(start)
        before.append(before[-1].add(parsed, messages))
    return known._replace(
        starts=(*known.starts[:-1], *starts)[-MAX_STARTS:],
        before=(*known.before[:-1], *before)[-MAX_STARTS:],
    )


def _find_last_starts(text: bytes, mark: bytes, after: int) -> list[int]:
    """Return where the last few messages begin: the next request may change some, as cache markers move."""
    starts: list[int] = []
    end = len(text)
    while len(starts) < LAST_STARTS and (end := text.rfind(mark, after + 1, end)) >= 0:
        starts.append(end)
    return starts[::-1]


def _read_tail(text: bytes, known: _Known) -> Fields | None:
    """Return the wanted fields of the whole, None where the rest is not what it should be."""
    tail = text[known.starts[-1] :]
    document = _parse(f'{{"{_LAST}":['.encode() + tail)
    fields = find_fields(document)
    if fields is None or not isinstance(document, dict):
        return None
    messages = known.before[-1].add(document[_LAST], tail)
    of_messages: Fields = {"messages": messages.number, TITLE: messages.title}
    longest = find_longest_ttl(known.head[CACHE_TTL], messages.cache_ttl)
    return known.head | of_messages | fields | {CACHE_TTL: longest}


def _parse(data: bytes) -> object:
    """Parse JSON strictly: what is lenient must see the whole. Returns None for what is not JSON,
    or too much of it."""
    if not is_light(data, MAX_VALUES):
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
