"""Positions of the parts of a request in its bytes: tools, blocks of the system prompt and of
messages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import orjson

from wire.block import is_call, is_result
from wire.json_places import JsonText, Place
from wire.json_weight import is_light

type Section = Literal["tools", "system", "messages"]

MAX_VALUES = 200_000  # some 0.2 s
MAX_NAME_CHARS = 200
# The field of a block that the model reads, by the kind of the block.
_CONTENT_FIELDS = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "data",
    "image": "source",
    "document": "source",
    "search_result": "content",
}


class Parent(NamedTuple):
    """The list of a block: in the request, or in the message number ``message`` (from 0)."""

    text: JsonText
    section: Section
    message: int | None = None
    role: str = ""


@dataclass(slots=True)  # not frozen: made for each block
class PlacedBlock:
    """A tool, or a block of the system prompt, a message or a tool result, with its position.

    ``number`` counts from 0. A text in place of a list is a block of kind ``text`` without a number."""

    parent: Parent
    place: Place
    fields: Mapping[object, Place]
    kind: str
    number: int | None = None

    @property
    def is_call(self) -> bool:
        """Return whether the block is a tool call."""
        return is_call(self.kind)

    @property
    def is_result(self) -> bool:
        """Return whether the block is the result of a tool call."""
        return is_result(self.kind)

    @property
    def content(self) -> Place | None:
        """Return the place of the content that the model reads, None for an unknown kind of block."""
        if self.is_call:
            return self.fields.get("input")
        name = "content" if self.is_result else _CONTENT_FIELDS.get(self.kind)
        return self.fields.get(name)

    @property
    def name(self) -> str:
        """Return the beginning of the name of a tool, "" if it is not text."""
        return self._read("name")

    @property
    def call_id(self) -> str:
        """Return the beginning of the id of a tool call, also for its result; "" for other blocks."""
        if self.is_call:
            return self._read("id")
        return self._read("tool_use_id") if self.is_result else ""

    @property
    def is_deferred(self) -> bool:
        """Return whether the block is a tool outside the prompt until the model finds it."""
        place = self.fields.get("defer_loading")
        return place is not None and self.parent.text.read(place) is True

    @property
    def words(self) -> Place | None:
        """Return the place of the text of a block of the system prompt, or None if it is not text."""
        place = self.fields.get("text")
        return place if place is not None and self.parent.text.is_kind(place, b'"') else None

    def _read(self, name: str) -> str:
        return _read_text(self.parent.text, self.fields.get(name))

    def list_parts(self) -> Iterator["PlacedBlock"]:
        """Yield the texts and blocks in the content of a tool result."""
        if self.content is not None:
            yield from _list_content(self.parent, self.content)


def place_request(body: bytes) -> JsonText | None:
    """Return a request with positions, or None if it is not a JSON object or too large.

    Never raises."""
    if not is_light(body, MAX_VALUES):
        return None
    try:
        is_object = isinstance(orjson.loads(body), dict)
    except orjson.JSONDecodeError:
        return None
    return JsonText(body) if is_object else None


def list_blocks(text: JsonText) -> Iterator[PlacedBlock]:
    """Yield the tools and blocks of a request in their order."""
    for name, value in text.list_members(text.find_value()):
        if name == "tools":
            yield from _list_items(Parent(text, name), value)
        elif name == "system":
            yield from _list_content(Parent(text, name), value)
        elif name == "messages":
            for number, message in enumerate(text.list_items(value)):
                fields = dict(text.list_members(message))
                if "content" in fields:
                    role = _read_text(text, fields.get("role"))
                    yield from _list_content(Parent(text, name, number, role), fields["content"])


def _list_content(parent: Parent, content: Place) -> Iterator[PlacedBlock]:
    """Yield the blocks of a content; a text is yielded as a single block."""
    if parent.text.is_kind(content, b'"'):
        yield PlacedBlock(parent, content, {"text": content}, "text")
    yield from _list_items(parent, content)


def _list_items(parent: Parent, items: Place) -> Iterator[PlacedBlock]:
    text = parent.text
    for number, place in enumerate(text.list_items(items)):
        fields = dict(text.list_members(place))
        yield PlacedBlock(parent, place, fields, _read_text(text, fields.get("type")), number)


def _read_text(text: JsonText, place: Place | None) -> str:
    if place is None or not text.is_kind(place, b'"'):
        return ""
    return str(text.read(place))[:MAX_NAME_CHARS]
