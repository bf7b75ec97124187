"""Measurement of the output that a response delivered, in characters.

Characters are bytes of UTF-8: across languages, tokens per byte vary far less than tokens per
letter. Tokens for structure have no characters, so a constant number of characters is added: for
the frame and the name of a tool call, the marks of a citation, the marks around thinking. Text,
thinking and tool input are output of the model. Results of tools that run upstream, signatures and
summaries of a compaction are not counted here: ``metering.delivered_passes`` counts the passes that
made them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

from wire.block import INPUT, TEXT, THINKING, Block
from wire.content import read_content
from wire.envelope import is_document
from wire.sse import sample_events

# Found by comparing recorded responses with their counts; see bench/estimates.py.
TOOL_CHARACTERS, CITATION_CHARACTERS, THINKING_CHARACTERS = 160, 80, 60
# A long stream is read in some places that are spread over it, and what is between them counts as they
# do: no stream may delay the others by more than some 50 ms.
MAX_READ_BYTES, PLACES = 2 * 1024 * 1024, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The delivered output, in characters.

    ``hides_thinking``: there was thinking that is not shown, of unknown length."""

    characters: float = 0
    thinking_characters: float = 0
    hides_thinking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSize:
    """Characters and tokens of output, of one response or summed over many.

    Those of thinking are separate."""

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


def measure(body: bytes) -> Delivered:
    """Return the output in a decoded body, whole or cut off. Accepts any bytes, and never raises."""
    return measure_sample(*read_sample(body))


def read_sample(body: bytes) -> tuple[Sequence[Block], float]:
    """Return (blocks, scale) of a body; the blocks of a long stream are a sample.

    ``scale`` is the length of the body divided by that of the sample."""
    sample = body if is_document(body) else sample_events(body, MAX_READ_BYTES, PLACES)
    return read_content(sample).blocks, len(body) / max(len(sample), 1)


def measure_sample(blocks: Iterable[Block], scale: float = 1) -> Delivered:
    """Return the estimated output of a response, ``scale`` times the output in sampled blocks."""
    text = thinking = thinking_blocks = 0
    hides_thinking = False
    for block in blocks:
        kind = block.kind
        if block.is_call:
            text += TOOL_CHARACTERS + _measure_input(block)
        elif kind == "text":
            text += measure_text(block.text(TEXT)) + CITATION_CHARACTERS * block.citation_count
        elif kind == "thinking":
            thinking_blocks += 1
            thinking += measure_text(block.text(THINKING))
        elif kind == "redacted_thinking":
            hides_thinking = True
    shown = THINKING_CHARACTERS * thinking_blocks if thinking else 0
    return Delivered(
        characters=text * scale,
        thinking_characters=(thinking + shown) * scale,
        hides_thinking=hides_thinking or bool(thinking_blocks and not thinking),
    )


def measure_text(text: str) -> int:
    """Return the length of a text in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _measure_input(block: Block) -> int:
    if block.parts and INPUT in block.parts:
        return measure_text(block.added(INPUT))
    try:
        return len(orjson.dumps(block.input)) if block.input else 0
    except orjson.JSONEncodeError:  # half a character, or nested deeply
        return 0
