"""Dividing a stream that was cut into what each pass of the call delivered.

Blocks of type ``fallback`` divide it by model. Within the part of one model, a block of type
``compaction`` is the output of a pass that summed up the conversation, and the text of an
``advisor_tool_result`` that of an advisor. After any result of a tool that ran upstream the model read
its prompt again, which upstream counts at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from metering import output
from metering.delivered import Delivered, measure_stream, measure_text, normalize_lines
from wire.json_reading import as_object, as_text, parse_object
from wire.sse import BLANK_LINE, parse_events

COMPACTION, ADVICE, SEARCH = "compaction", "advisor_tool_result", "web_search_tool_result"
TOOL_RESULT = "_tool_result"
_MARKERS = (b'"compaction', b'_tool_result"')
_FALLBACK = b'"fallback"'
MAX_CANDIDATES = 1_000  # events that are looked at for a fallback, before nothing more is divided


@dataclass(slots=True, kw_only=True)
class Part:
    """The content that one model of the chain delivered. ``compactions`` and ``advice`` are the
    characters of each text, those of an advice None where it is encrypted. ``begins_with_compaction``:
    no content came before the first of them. ``searches`` counts web searches with results: one that
    failed is not billed."""

    delivered: Delivered
    compactions: list[int]
    advice: list[int | None]
    begins_with_compaction: bool = False
    has_tool_results: bool = False
    searches: int = 0


def measure_parts(body: bytes, hops: int) -> list[Part]:
    """Return the part of each model of a stream in which so many models handed over to another one.

    Takes any bytes, and never raises. Where a fallback is not found again, its part is empty."""
    body = normalize_lines(body)
    places = [0, *_find_fallbacks(body, hops), len(body)]
    parts = [_measure_part(body[start:end]) for start, end in pairwise(places)]
    empty = [_measure_part(b"") for _ in range(hops + 1 - len(parts))]
    return [*parts[:-1], *empty, parts[-1]]


def _find_fallbacks(body: bytes, hops: int) -> list[int]:
    """Return where the events begin by which another model takes over."""
    places: list[int] = []
    at = 0
    for _ in range(MAX_CANDIDATES):
        found = body.find(_FALLBACK, at) if len(places) < hops else -1
        if found < 0:
            break
        before = body.rfind(BLANK_LINE, at, found)
        start = before + len(BLANK_LINE) if before >= 0 else at
        end = body.find(BLANK_LINE, found)
        at = end if end >= 0 else len(body)
        if any(output.is_fallback(block) for block in _read_blocks(body[start:at])):
            places.append(start)
    return places


def _measure_part(part: bytes) -> Part:
    found = Part(delivered=measure_stream(part), compactions=[], advice=[])
    for event in parse_events(part, _MARKERS):
        document = parse_object(event.data) or {}
        delta = as_object(document.get("delta"))
        if delta.get("type") == "compaction_delta" and found.compactions:
            found.compactions[-1] += measure_text(delta.get("content"))
        block = as_object(document.get("content_block"))
        kind = as_text(block.get("type"))
        if kind == COMPACTION:
            found.begins_with_compaction |= not document.get("index")
            found.compactions.append(measure_text(block.get("content")))
        elif kind == ADVICE:
            found.advice.append(_measure_advice(as_object(block.get("content"))))
        elif kind == SEARCH and isinstance(block.get("content"), list):
            found.searches += 1
        found.has_tool_results |= kind.endswith(TOOL_RESULT)
    return found


def _measure_advice(content: dict[str, object]) -> int | None:
    text = content.get("text")
    return measure_text(text) if isinstance(text, str) else None


def _read_blocks(part: bytes) -> Iterator[dict[str, object]]:
    for event in parse_events(part):
        document = parse_object(event.data) or {}
        yield as_object(document.get("content_block"))
