"""Division of a stream that was cut off into the content that each pass of the call delivered.

Blocks of type ``fallback`` divide it by model. Within the part of one model, a block of type
``compaction`` is the output of a pass that summarised the conversation, and the text of an
``advisor_tool_result`` that of an advisor. After any result of a tool that ran upstream the model
read its prompt again, which upstream counts at the end."""

from dataclasses import dataclass
from itertools import pairwise

from metering.delivered import Delivered, measure_sample, measure_text, read_sample
from wire.block import SUMMARY, TEXT, Block
from wire.content import find_fallbacks
from wire.json_reading import as_object
from wire.sse import normalize_lines

COMPACTION, ADVICE, SEARCH = "compaction", "advisor_tool_result", "web_search_tool_result"
TOOL_RESULT = "_tool_result"


@dataclass(slots=True, kw_only=True)
class Part:
    """The content that one model of the chain delivered.

    ``compactions`` and ``advice`` have the characters of each text; those of an encrypted advice are
    None. ``begins_with_compaction``: no content came before the first compaction. ``searches`` counts
    web searches with results: failed ones are not billed."""

    delivered: Delivered
    compactions: list[int]
    advice: list[int | None]
    begins_with_compaction: bool = False
    has_tool_results: bool = False
    searches: int = 0


def measure_parts(body: bytes, hops: int) -> list[Part]:
    """Return the part of each model of a stream in which ``hops`` models handed over to the next one.

    Accepts any bytes, and never raises. If a fallback block is not found, the part after it is empty."""
    body = normalize_lines(body)
    places = [0, *find_fallbacks(body, hops), len(body)]
    parts = [_measure_part(body[start:end]) for start, end in pairwise(places)]
    empty = [_measure_part(b"") for _ in range(hops + 1 - len(parts))]
    return [*parts[:-1], *empty, parts[-1]]


def _measure_part(part: bytes) -> Part:
    blocks, scale = read_sample(part)
    own = [block for block in blocks if not block.is_fallback]
    return Part(
        delivered=measure_sample(own, scale),
        compactions=[measure_text(each.text(SUMMARY)) for each in own if each.kind == COMPACTION],
        advice=[_measure_advice(block) for block in own if block.kind == ADVICE],
        begins_with_compaction=bool(own) and own[0].kind == COMPACTION,
        has_tool_results=any(block.kind.endswith(TOOL_RESULT) for block in own),
        searches=sum(block.kind == SEARCH and isinstance(block.content, list) for block in own),
    )


def _measure_advice(block: Block) -> int | None:
    text = as_object(block.content).get(TEXT)
    return measure_text(text) if isinstance(text, str) else None
