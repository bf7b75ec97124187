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

from wire.json_reading import MAX_VALUES
from wire.json_weight import is_light

LAST_STARTS = 4
_MESSAGE = re.compile(rb'\{"role": ?"')
_MESSAGES_END = re.compile(rb'"messages"[ \t\r\n]*:[ \t\r\n]*\[$')
_SPACE = b" \t\r\n"
# What the last messages are called when they are parsed with the tail: nobody else can know it.
_LAST = secrets.token_hex()


class FirstMessage(NamedTuple):
    """The position of the first message. ``mark`` has the bytes that each message begins with."""

    start: int
    mark: bytes


def find_first_message(body: bytes) -> FirstMessage:
    """Return the position of the first message. Raises ValueError if the body cannot be split there."""
    message = _MESSAGE.search(body)
    if message is None or not _MESSAGES_END.search(body[: message.start()].rstrip(_SPACE)):
        raise ValueError("no messages, or not written as most are")
    return FirstMessage(message.start(), message[0])


def find_last_starts(body: bytes, mark: bytes, after: int) -> list[int]:
    """Return the positions of the last few messages, which the next request may change by cache markers."""
    starts: list[int] = []
    end = len(body)
    while len(starts) < LAST_STARTS and (end := body.rfind(mark, after + 1, end)) >= 0:
        starts.append(end)
    return starts[::-1]


def parse_head(text: bytes) -> dict[str, object]:
    """Return the fields before the messages. Raises ValueError for invalid JSON."""
    return _parse(dict, text + b"]}")


def parse_messages(text: bytes) -> list[object]:
    """Return the messages in a text that ends before another one. Raises ValueError for invalid JSON."""
    text = text.rstrip(_SPACE)
    if not text.endswith(b","):
        raise ValueError("no comma between two messages")
    return _parse(list, b"[" + text[:-1] + b"]")


def parse_tail(text: bytes) -> tuple[list[object], dict[str, object]]:
    """Return the last messages and the fields after them. Raises ValueError for invalid JSON."""
    document = _parse(dict, f'{{"{_LAST}":['.encode() + text)
    return document.pop(_LAST), document


def _parse[T](kind: type[T], data: bytes) -> T:
    """Return strictly parsed JSON of type ``kind``: lenient parsing needs the whole text.

    Raises ValueError."""
    value = orjson.loads(data) if is_light(data, MAX_VALUES) else None
    if not isinstance(value, kind):
        raise ValueError(f"no {kind.__name__}, or too much")  # noqa: TRY004 - as what is not JSON
    return value
