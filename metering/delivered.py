"""Measuring the output that a response delivered, in characters.

Characters are bytes of UTF-8: over languages, tokens per byte vary far less than tokens per letter. What
a model writes around its words has no characters here and is counted as some: the frame and the name of
a tool call, the marks of a citation, the marks around thinking.

Text, thinking and tool input are output of the model. Results of tools that run upstream, signatures and
summaries of a compaction are not counted here: ``metering.delivered_passes`` has the passes of their own.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import orjson

from wire.json_reading import as_list, as_object, as_objects, as_text, parse_object
from wire.sse import BLANK_LINE, parse_events

# Found by comparing recorded responses with their counts; see bench/estimates.py.
TOOL_CHARACTERS, CITATION_CHARACTERS, THINKING_CHARACTERS = 160, 80, 60
# A long stream is read in some places that are spread over it, and what is between them counts as they
# do: no stream may delay the others by more than some 50 ms.
MAX_READ_BYTES, PLACES = 256 * 1024, 8
_DATA, _BLOCK_EVENT = b"data:", b"content_block_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The output that came, in characters. ``hides_thinking``: there was thinking that is not shown, so
    nothing tells how much it was."""

    characters: float = 0
    thinking_characters: float = 0
    hides_thinking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSize:
    """Characters and tokens of output, of one response or summed over many. Those of thinking are
    apart."""

    characters: float = 0
    tokens: float = 0
    thinking_characters: float = 0
    thinking_tokens: float = 0

    def __add__(self, other: "OutputSize") -> "OutputSize":
        return OutputSize(
            characters=self.characters + other.characters,
            tokens=self.tokens + other.tokens,
            thinking_characters=self.thinking_characters + other.thinking_characters,
            thinking_tokens=self.thinking_tokens + other.thinking_tokens,
        )


UNKNOWN_SIZE = OutputSize()


@dataclass(slots=True)
class _Sums:
    text: int = 0
    thinking: int = 0
    tools: int = 0
    citations: int = 0
    thinking_blocks: int = 0
    hidden_blocks: int = 0

    def add_block(self, block: Mapping[str, object]) -> None:
        """Add a content block, whole or as it begins."""
        kind = as_text(block.get("type"))
        if kind.endswith("tool_use"):
            self.tools += 1
            self.text += len(orjson.dumps(block["input"])) if block.get("input") else 0
        elif kind == "text":
            self.text += measure_text(block.get("text"))
            self.citations += len(as_list(block.get("citations")))
        elif kind == "thinking":
            self.thinking_blocks += 1
            self.thinking += measure_text(block.get("thinking"))
        elif kind == "redacted_thinking":
            self.hidden_blocks += 1

    def add_delta(self, delta: Mapping[str, object]) -> None:
        """Add a part of a content block. Deltas of other kinds carry no output."""
        match delta.get("type"):
            case "text_delta":
                self.text += measure_text(delta.get("text"))
            case "input_json_delta":
                self.text += measure_text(delta.get("partial_json"))
            case "thinking_delta":
                self.thinking += measure_text(delta.get("thinking"))
            case "citations_delta":
                self.citations += 1

    def finish(self) -> Delivered:
        frames = TOOL_CHARACTERS * self.tools + CITATION_CHARACTERS * self.citations
        shown = THINKING_CHARACTERS * self.thinking_blocks if self.thinking else 0
        return Delivered(
            characters=self.text + frames,
            thinking_characters=self.thinking + shown,
            hides_thinking=bool(self.hidden_blocks or (self.thinking_blocks and not self.thinking)),
        )


def measure_stream(body: bytes) -> Delivered:
    """Return the output in a stream, whole or cut. Takes any bytes, and never raises."""
    body = normalize_lines(body)
    sums = _Sums()
    for part in _choose_parts(body):
        for document in _read_documents(part):
            match document.get("type"):
                case "content_block_start":
                    sums.add_block(as_object(document.get("content_block")))
                case "content_block_delta":
                    sums.add_delta(as_object(document.get("delta")))
    delivered, scale = sums.finish(), max(len(body) / MAX_READ_BYTES, 1)
    return replace(
        delivered,
        characters=delivered.characters * scale,
        thinking_characters=delivered.thinking_characters * scale,
    )


def normalize_lines(body: bytes) -> bytes:
    """Return a stream with all of its lines ending in LF."""
    return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in body else body


def measure_text(text: object) -> int:
    """Return the characters of a text, 0 for what is none."""
    return len(as_text(text).encode("utf-8", "replace"))


def measure_content(content: object) -> Delivered:
    """Return the output in the content of a message."""
    sums = _Sums()
    for block in as_objects(content):
        sums.add_block(block)
    return sums.finish()


def _choose_parts(body: bytes) -> Iterator[bytes]:
    """Yield the body, or parts of a long one: the events that begin in some places of it."""
    if len(body) <= MAX_READ_BYTES:
        yield body
        return
    size = MAX_READ_BYTES // PLACES
    for place in range(PLACES):
        start = place * (len(body) - size) // (PLACES - 1)
        first = body.find(BLANK_LINE, start, start + size) if start else 0
        end = body.find(BLANK_LINE, start + size)
        if first >= 0:
            yield body[first : end + len(BLANK_LINE) if end >= 0 else len(body)]


def _read_documents(part: bytes) -> Iterable[Mapping[str, object]]:
    """Return the JSON objects of the events about content.

    Nearly always each has a line of its own, and all of them are parsed at once, in a third of the time
    that it takes one by one. What is not so, or is long, is read as events are. What was cut off is not
    read."""
    whole = part[: part.rfind(BLANK_LINE)]
    lines = [
        line.removeprefix(_DATA)
        for line in whole.split(b"\n")
        if line.startswith(_DATA) and _BLOCK_EVENT in line
    ]
    if sum(map(len, lines)) <= MAX_READ_BYTES:
        with suppress(orjson.JSONDecodeError):
            return map(as_object, orjson.loads(b"[%s]" % b",".join(lines)))
    return (parse_object(event.data) or {} for event in parse_events(part, [_BLOCK_EVENT]))
