"""Reading JSON from untrusted sources: leniently, and only as much as is quick to read."""

import json
import re

import orjson

from wire.json_weight import is_light

MAX_VALUES = 500_000


def parse_json(data: bytes) -> object | None:
    """Return the value; None for what is no JSON (or null), or for more than ``MAX_VALUES`` values.

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
    """Return what ``parse_json`` does when it is an object, else None. Never raises."""
    value = parse_json(data)
    return value if isinstance(value, dict) else None


def as_object(value: object) -> dict[str, object]:
    """Return an object as it is, and an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return a list as it is, and an empty one for everything else."""
    return value if isinstance(value, list) else []


def as_objects(value: object) -> list[dict[str, object]]:
    """Return the items of a list, with an empty object for each that is none."""
    return [as_object(item) for item in as_list(value)]


def as_text(value: object) -> str:
    """Return text as it is, and an empty one for everything else."""
    return value if isinstance(value, str) else ""


def _parse_leniently(text: str) -> object | None:
    if not re.match(r"\s*[{\[]", text):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value
