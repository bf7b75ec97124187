"""The body of a request in parts that are parsed by themselves: head, messages and tail.

    {"model":"m","messages":[    {"role":…},{"role":…},    {"role":…}],"metadata":{}}
    head, closed by ]}           messages, between [ ]     tail, opened by {"name":[

If each of them is JSON, so is the whole, and its fields are those of the head and the tail: the head
ends within an array of the outermost object and in nothing deeper, the messages never leave that
array, and the tail closes it and the object.

Several readers take the same body apart, one after the other and mostly at the same places. ``PartParser``
parses each part once for all of them.
"""

import re
import secrets
from collections.abc import Callable
from typing import NamedTuple

import orjson

from wire.json_reading import MAX_VALUES, parse_object
from wire.json_weight import is_light

LAST_STARTS = 4
_MESSAGE = re.compile(rb'\{"role": ?"')
_MESSAGES_END = re.compile(rb'"messages"[ \t\r\n]*:[ \t\r\n]*\[$')
_SPACE = b" \t\r\n"
MOST_BODIES = 16  # the recorder reads so many, and then judges them
MAX_HELD_BYTES = 8 * 1024 * 1024  # of these bodies
MAX_KEPT_BYTES = 1024 * 1024  # of all parts; what is parsed of them takes several times as much
# What the last messages are called when they are parsed with the tail: nobody else can know it.
_LAST = secrets.token_hex()


class FirstMessage(NamedTuple):
    """The place where the first message begins. ``mark`` are the bytes that each of them begins with."""

    start: int
    mark: bytes


def find_first_message(body: bytes) -> FirstMessage | None:
    """Return where the messages begin, None for a body that cannot be taken apart there."""
    message = _MESSAGE.search(body)
    if message is None or not _MESSAGES_END.search(body[: message.start()].rstrip(_SPACE)):
        return None
    return FirstMessage(message.start(), message[0])


def find_last_starts(body: bytes, mark: bytes, after: int) -> list[int]:
    """Return where the last few messages begin: the next request may change some, as cache markers move."""
    starts: list[int] = []
    end = len(body)
    while len(starts) < LAST_STARTS and (end := body.rfind(mark, after + 1, end)) >= 0:
        starts.append(end)
    return starts[::-1]


class _Body(NamedTuple):
    """A body, with what is parsed of it by kind, start and end."""

    body: bytes
    parts: dict[tuple[str, int, int], object]


class PartParser:
    """Parses parts of bodies, and remembers those of the last few bodies.

    What is returned must not be changed: others get it too."""

    def __init__(self) -> None:
        self._bodies: dict[int, _Body] = {}  # by their ids, the oldest first
        self._held_bytes = self._kept_bytes = 0  # of the bodies, and of their parts

    def forget(self) -> None:
        """Forget all bodies."""
        self._bodies.clear()
        self._held_bytes = self._kept_bytes = 0

    def whole(self, body: bytes) -> dict[str, object] | None:
        """Return what ``parse_object`` does with a body."""
        return self._find(body, "whole", 0, len(body), lambda: parse_object(body))

    def head(self, body: bytes, end: int) -> object:
        """Return what ``parse_head`` does."""
        return self._find(body, "head", 0, end, lambda: parse_head(body, end))

    def messages(self, body: bytes, start: int, end: int) -> list[object] | None:
        """Return what ``parse_messages`` does with a part of a body."""
        return self._find(body, "messages", start, end, lambda: parse_messages(body[start:end]))

    def tail(self, body: bytes, start: int) -> tuple[list[object], dict[str, object]] | None:
        """Return what ``parse_tail`` does with the end of a body."""
        return self._find(body, "tail", start, len(body), lambda: parse_tail(body[start:]))

    def _find[T](self, body: bytes, kind: str, start: int, end: int, parse: Callable[[], T]) -> T:
        known = self._bodies.get(id(body)) or self._begin(body)
        key = kind, start, end
        if key in known.parts:
            found: T = known.parts[key]  # type: ignore[assignment]  # of this kind
            return found
        found = parse()
        if self._kept_bytes + end - start <= MAX_KEPT_BYTES:
            known.parts[key] = found
            self._kept_bytes += end - start
        return found

    def _begin(self, body: bytes) -> _Body:
        """Remember a body, in the place of the oldest ones if there is too much."""
        while self._bodies and (
            len(self._bodies) >= MOST_BODIES or self._held_bytes + len(body) > MAX_HELD_BYTES
        ):
            oldest = self._bodies.pop(next(iter(self._bodies)))
            self._held_bytes -= len(oldest.body)
            self._kept_bytes -= sum(end - start for _, start, end in oldest.parts)
        self._held_bytes += len(body)
        begun = self._bodies[id(body)] = _Body(body, {})
        return begun


def parse_head(body: bytes, end: int) -> object:
    """Return what stands before the messages, None for what is not JSON. ``end`` is where they begin."""
    return _parse(body[:end] + b"]}")


def parse_messages(text: bytes) -> list[object] | None:
    """Return the messages of a text that ends before another one, None for what is not JSON."""
    text = text.rstrip(_SPACE)
    messages = _parse(b"[" + text[:-1] + b"]") if text.endswith(b",") else None
    return messages if isinstance(messages, list) else None


def parse_tail(text: bytes) -> tuple[list[object], dict[str, object]] | None:
    """Return the last messages and the fields after them, None for what is not JSON."""
    document = _parse(f'{{"{_LAST}":['.encode() + text)
    if not isinstance(document, dict):
        return None
    return document.pop(_LAST), document


def _parse(data: bytes) -> object:
    """Parse JSON strictly: what is lenient must see the whole. Returns None for what is not JSON,
    or too much of it."""
    if not is_light(data, MAX_VALUES):
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
