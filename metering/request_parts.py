"""The body of a request in parts that are parsed by themselves: head, messages and tail.

    {"model":"m","messages":[    {"role":…},{"role":…},    {"role":…}],"metadata":{}}
    head, closed by ]}           messages, between [ ]     tail, opened by {"name":[

If each of them is JSON, so is the whole, and its fields are those of the head and the tail: the head
ends within an array of the outermost object and in nothing deeper, the messages never leave that
array, and the tail closes it and the object.
"""

import re
import secrets
from typing import NamedTuple

import orjson

from metering.json_reading import MAX_VALUES
from metering.json_weight import is_light

LAST_STARTS = 4
_MESSAGE = re.compile(rb'\{"role": ?"')
_MESSAGES_END = re.compile(rb'"messages"[ \t\r\n]*:[ \t\r\n]*\[$')
_SPACE = b" \t\r\n"
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
