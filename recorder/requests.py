"""Reading a request's fields (``metering.request_facts``) while parsing only what is new in it.

All are fields of the outermost object, and of a long request nearly all is its messages, which are
merely counted here. So a request is taken in parts (``metering.request_parts``). The gain comes with the
next request of a conversation, which begins with the same bytes: head and old messages are known, and
only what is new is parsed.
The same holds for what is found in the bytes of a request rather than in its fields.

What cannot be taken apart like this is parsed as a whole.
"""

from bisect import bisect_right
from typing import NamedTuple

from metering.conversation_memory import (
    MIN_BODY_BYTES,
    ConversationMemory,
    Findings,
)
from metering.request_facts import (
    CACHE_TTL,
    TITLE,
    Fields,
    find_cache_ttl,
    find_fields,
    find_longest_ttl,
    read_fields,
)
from metering.request_parts import PartParser, find_first_message, find_last_starts
from metering.title import find_title
from wire.block import CacheTtl

LARGE_JSON_BYTES = 4 * 1024 * 1024  # a larger one is not remembered
MAX_STARTS = 64  # remembered of a conversation


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
        parts = self._findings.parts
        if not MIN_BODY_BYTES <= len(text) <= LARGE_JSON_BYTES:
            return _read_whole(text, parts)
        key = self._findings.guess_key(text, *labels)
        kept = self._findings.find(key)
        if kept is not None and kept.found is None:
            return _read_whole(text, parts)
        recalled = None
        if kept is not None and kept.found is not None:
            recalled = _recall(self._findings.shared_length(kept, text), kept.found)
        begun = recalled or _read_head(text, parts)
        known = None if begun is None else _read_messages(text, begun, parts)
        tail = None if known is None else _read_tail(text, known, parts)
        if known is not None and tail is not None:
            self._findings.keep(key, text, known)
            return tail
        if recalled is None:
            self._findings.keep(key, b"", None)
        return _read_whole(text, parts)


def _read_whole(text: bytes, parts: PartParser) -> Fields:
    return read_fields(parts.whole(text), text)


def _recall(shared: int, known: _Known) -> _Known | None:
    """Return what is known of so many bytes, which the last request has in common with this one."""
    count = bisect_right(known.starts, shared - len(known.mark))
    if not count:
        return None
    return known._replace(starts=known.starts[:count], before=known.before[:count])


def _read_head(text: bytes, parts: PartParser) -> _Known | None:
    first = find_first_message(text)
    if first is None:
        return None
    head = read_fields(parts.head(text, first.start), text[: first.start])
    return _Known(head, first.mark, (first.start,), (_Messages(),)) if head else None


def _read_messages(text: bytes, known: _Known, parts: PartParser) -> _Known | None:
    """Return the same with all messages but the last."""
    starts, before = [known.starts[-1]], [known.before[-1]]
    for start in find_last_starts(text, known.mark, starts[0]):
        messages = parts.messages(text, starts[-1], start)
        if messages is None:
            return None
        before.append(before[-1].add(messages, text[starts[-1] : start]))
        starts.append(start)
    return known._replace(
        starts=(*known.starts[:-1], *starts)[-MAX_STARTS:],
        before=(*known.before[:-1], *before)[-MAX_STARTS:],
    )


def _read_tail(text: bytes, known: _Known, parts: PartParser) -> Fields | None:
    """Return the wanted fields of the whole, None where the rest is not what it should be."""
    start = known.starts[-1]
    parsed = parts.tail(text, start)
    if parsed is None:
        return None
    last, document = parsed
    messages = known.before[-1].add(last, text[start:])
    of_messages: Fields = {"messages": messages.number, TITLE: messages.title}
    longest = find_longest_ttl(known.head[CACHE_TTL], messages.cache_ttl)
    return known.head | of_messages | (find_fields(document) or {}) | {CACHE_TTL: longest}
