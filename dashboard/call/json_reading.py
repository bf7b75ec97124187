"""JSON from anywhere, for showing.

Parsing holds the interpreter for all of its time, and what it makes can be thirty times as large as
the text. Both go with the number of values, which is bounded before.
"""

import json
import re

import orjson

MAX_VALUES = 400_000
_SEPARATORS = (b",", b"[", b"{")


def parse_json(data: bytes) -> object | None:
    """None for what is no JSON (or null), or too much of it. Lenient where orjson is strict (NaN, lone
    surrogates, bytes that are not UTF-8). Never raises."""
    if sum(map(data.count, _SEPARATORS)) > MAX_VALUES:
        return None
    try:
        value: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _parse_leniently(data.decode("utf-8-sig", "replace"))
    return value


def parse_object(data: bytes) -> dict[str, object] | None:
    """None for what is no JSON object, or too much of one. Never raises."""
    value = parse_json(data)
    return value if isinstance(value, dict) else None


def as_object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _parse_leniently(text: str) -> object | None:
    if not re.match(r"\s*[{\[]", text):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value
