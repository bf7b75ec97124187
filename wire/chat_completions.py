"""Chat completions: the responses of upstream's interface for programs that are written for OpenAI's.

    {"object": "chat.completion", "id": "…", "model": "…", "choices": […], "usage": {"prompt_tokens": 12, …}}

They are read as the message that upstream has made them of, so whoever shows or searches responses needs to
know nothing of them. Only the first choice is read: upstream makes no other. A stream has its words in parts,
and ends with ``[DONE]``; its counts come in the last part before that, and only if the request asks for them:

    data: {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "He"}}]}
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from wire.envelope import Envelope, is_document
from wire.json_reading import as_object, as_objects, as_text, clean_text, parse_json, parse_object
from wire.sse import parse_events
from wire.usage_object import UsageObject

MAX_EVENTS = 150_000
MAX_TOOL_CALLS = 1_000
DECIDING_BYTES = 4096
INPUT_TOKENS, OUTPUT_TOKENS = "prompt_tokens", "completion_tokens"
_OBJECT = b'"chat.completion'
_END = b"[DONE]"
# The other parts of a stream have words alone.
_MARKERS = (
    b'"role"',
    b'"%b"' % INPUT_TOKENS.encode(),
    b'"finish_reason":"',
    b'"finish_reason": "',
    b"error",
    _END,
)

type Fields = Mapping[str, object]


class Chat(NamedTuple):
    """A chat completion as a message: its envelope, and its blocks."""

    said: Envelope
    blocks: Sequence[dict[str, object]]


class _Part(NamedTuple):
    """A whole response, or a part of a stream; ``document`` is None if it is not a JSON object."""

    document: Fields | None
    is_end: bool = False
    is_error: bool = False


def read_chat_envelope(body: bytes) -> Envelope:
    """Return the envelope of a chat completion, whole or cut off. Never raises."""
    said = Envelope()
    for part in _list_parts(body, MAX_EVENTS, _MARKERS):
        _read(said, part)
    return said


def read_chat(body: bytes, max_events: int = MAX_EVENTS) -> Chat | None:
    """Return a chat completion, whole or cut off, or None for any other body. Never raises."""
    if body.find(_OBJECT, 0, DECIDING_BYTES) < 0:
        return None
    parts = _list_parts(body, max_events)
    first = next(parts, _Part(None))
    if not as_text((first.document or {}).get("object")).startswith("chat.completion"):
        return None
    said, words = Envelope(), _Words()
    for part in (first, *parts):
        _read(said, part)
        words.read(part.document or {})
    return Chat(said, words.to_blocks())


def _list_parts(body: bytes, max_events: int, containing: Sequence[bytes] = ()) -> Iterator[_Part]:
    if is_document(body):
        yield _Part(parse_object(body))
        return
    for event in islice(parse_events(body, containing), max_events):
        is_end = event.data == _END
        yield _Part(None if is_end else parse_object(event.data), is_end, event.name == "error")


def _read(said: Envelope, part: _Part) -> None:
    """Read a part of the response into the envelope ``said``."""
    said.has_end = said.has_end or part.is_end
    document = part.document
    if document is None:
        return
    if part.is_error or "error" in document:
        said.is_error, said.error = True, as_object(document.get("error")) or said.error
        return
    if not said.message and document:
        said.message = {"type": "message", "id": document.get("id"), "model": document.get("model")}
    said.model = clean_text(document.get("model")) or said.model
    for choice in _list_choices(document):
        said.stop_reason = clean_text(choice.get("finish_reason")) or said.stop_reason
        said.ending["stop_reason"] = said.stop_reason
    if usage := as_object(document.get("usage")):
        said.started = UsageObject.read(usage)


class _Words:
    """The content of a chat completion, joined from its parts."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: dict[object, dict[str, str]] = {}

    def read(self, document: Fields) -> None:
        """Read the content of a whole response, or of a part."""
        for choice in _list_choices(document):
            said = as_object(choice.get("message")) or as_object(choice.get("delta"))
            self._texts.append(as_text(said.get("content")))
            for place, call in enumerate(as_objects(said.get("tool_calls"))):
                self._add_call(place, call)

    def to_blocks(self) -> list[dict[str, object]]:
        """Return the content as the blocks of a message."""
        text = "".join(self._texts)
        texts: list[dict[str, object]] = [{"type": "text", "text": text}] if text else []
        return [*texts, *map(_to_block, self._calls.values())]

    def _add_call(self, place: int, part: Fields) -> None:
        """Add a tool call, or a part of the one that ``index`` names."""
        index = part.get("index", place)
        if type(index) is not int or (
            index not in self._calls and len(self._calls) >= MAX_TOOL_CALLS
        ):
            return
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = as_object(part.get("function"))
        call["id"] = as_text(part.get("id")) or call["id"]
        call["name"] += as_text(function.get("name"))
        call["arguments"] += as_text(function.get("arguments"))


def _list_choices(document: Fields) -> list[dict[str, object]]:
    return as_objects(document.get("choices"))[:1]


def _to_block(call: Mapping[str, str]) -> dict[str, object]:
    parsed = parse_json(call["arguments"].encode("utf-8", "replace"))
    given = call["arguments"] if parsed is None else parsed
    return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": given}
