"""Lenient parsing of JSON from untrusted sources, up to a size that can be parsed quickly."""

import json
import re

import orjson

from wire.json_weight import is_light

MAX_VALUES = 500_000
MAX_TEXT_CHARS = 200
MAX_COUNT = 10**12  # a million of the largest prompts; sums over many rows still fit SQLite


def parse_json(data: bytes) -> object | None:
    """Return the parsed value, or None for invalid JSON, null, or more than ``MAX_VALUES`` values.

    Lenient where orjson is strict (NaN, lone surrogates, bytes that are not UTF-8), because one odd
    character must not cost the token counts. Never raises."""
    if not is_light(data, MAX_VALUES):
        return None
    try:
        value: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _parse_leniently(data.decode("utf-8-sig", "replace"))
    return value


def parse_object(data: bytes) -> dict[str, object] | None:
    """Return the parsed object, or None for anything else. Never raises."""
    value = parse_json(data)
    return value if isinstance(value, dict) else None


def as_object(value: object) -> dict[str, object]:
    """Return ``value`` if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return ``value`` if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def as_objects(value: object) -> list[dict[str, object]]:
    """Return the items of a list, with an empty object in place of each item that is not an object."""
    return [as_object(item) for item in as_list(value)]


def as_text(value: object) -> str:
    """Return ``value`` if it is a string, otherwise ""."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """Return ``value`` as an int if it is a whole number from 0 to ``MAX_COUNT``, otherwise None.

    A float without a fraction is accepted, a bool is not."""
    # type(), because a bool is an int too
    if type(value) is int:
        return value if 0 <= value <= MAX_COUNT else None
    if type(value) is float and value.is_integer():  # as some gateways write counts
        return as_count(int(value))
    return None


def clean_text(value: object, max_chars: int = MAX_TEXT_CHARS) -> str | None:
    """Return a short text that SQLite can store, or None for a value that is empty or not text.

    The text may come from anywhere, so it is cut to ``max_chars``; NUL and lone surrogates are
    replaced."""
    if not isinstance(value, str) or not value:
        return None
    if len(value) <= max_chars and value.isascii() and "\0" not in value:  # as nearly all are
        return value
    text = value[:max_chars].replace("\0", "\ufffd")
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def decode_string(string: bytes) -> str:
    """Return the text of a JSON string that is given without its quotes. Never raises."""
    if string.find(b"\\") < 0:
        return string.decode("utf-8", "replace")
    try:
        text: str = orjson.loads(b'"%b"' % string)
    except orjson.JSONDecodeError:  # a lone half of a character, or no valid JSON
        return _decode_leniently(string)
    return text


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}


def _decode_leniently(string: bytes) -> str:
    def replace(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        return _PLAIN_ESCAPES.get(found[2] or "", found[2] or "")

    text = _ESCAPE.sub(replace, string.decode("utf-8", "replace"))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parse_leniently(text: str) -> object | None:
    if not re.match(r"\s*[{\[]", text):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value
