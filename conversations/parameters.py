"""The settings of a request that decide which part of the cache it may read.

They are not part of its prompt. Changing one of them loses the cache of its level and of later
levels. A setting with its default value counts as one that is left out."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Literal, NamedTuple

import orjson

from wire.request import NOTHING_STATED, Request, StatedSettings

MAX_CHARS = 40


class Parameters(NamedTuple):
    """The settings of one request.

    ``images`` is the number of images in the whole prompt; ``output_format`` is a digest of the schema
    that the response must follow."""

    speed: str = "standard"
    citations: str = "off"
    output_format: str = "none"
    tool_choice: str = "auto"
    parallel_tools: str = "allowed"
    thinking: str = "disabled"
    effort: str = "high"
    images: int = 0


class Change(NamedTuple):
    """A setting that differs between two requests. ``title`` is its name in a sentence.

    ``before`` and ``after`` are None if the values mean nothing to people."""

    name: str
    level: Literal["system", "messages"]
    title: str
    before: str | None
    after: str | None


_SETTINGS: tuple[tuple[str, Literal["system", "messages"], str], ...] = (
    ("speed", "system", "the speed"),
    ("citations", "system", "citations"),
    ("output_format", "system", "the output format"),
    ("tool_choice", "messages", "the tool choice"),
    ("parallel_tools", "messages", "parallel tool use"),
    ("thinking", "messages", "thinking"),
    ("effort", "messages", "the effort"),
)
# Whether these lose the cache of tools and system too depends on the model.
BY_MODEL = ("thinking", "effort")


def read_parameters(request: Request, *, images: int, cites: bool) -> Parameters:
    """Return the settings of a request.

    ``images`` is the number of images in its prompt, ``cites`` whether it has citations."""
    citations = "on" if cites else "off"
    stated = request.stated_settings
    if stated is NOTHING_STATED:
        return Parameters(citations=citations, images=images)
    return Parameters(
        speed=_as_word(stated.speed, "standard"),
        citations=citations,
        output_format=_digest(stated.output_format),
        tool_choice=_format_choice(stated),
        parallel_tools="off" if stated.forbids_parallel_tools else "allowed",
        thinking=_format_thinking(stated),
        effort=_as_word(stated.effort, "high"),
        images=images,
    )


def list_changes(before: Parameters, after: Parameters) -> Iterator[Change]:
    """Yield the settings that differ, those that lose most of the cache first.

    Images are left out, since each new one in a conversation would be a change."""
    for name, level, title in _SETTINGS:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            says_nothing = name == "output_format"
            yield Change(
                name, level, title, None if says_nothing else old, None if says_nothing else new
            )


def _as_word(value: str, default: str) -> str:
    return value[:MAX_CHARS] or default


def _format_choice(stated: StatedSettings) -> str:
    kind, name = _as_word(stated.tool_choice, "auto"), stated.chosen_tool
    return kind if name is None else f"{kind} {name}"[:MAX_CHARS]


def _format_thinking(stated: StatedSettings) -> str:
    kind, budget = _as_word(stated.thinking, "disabled"), stated.thinking_budget
    return f"{kind} ({budget:,} tokens)" if kind == "enabled" and budget is not None else kind


def _digest(value: object) -> str:
    if value is None:
        return "none"
    try:
        written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested deeply, or lone surrogates: all such are alike
        written = b""
    return blake2b(written, digest_size=8).hexdigest()
