"""The tokens of each part of a prompt: what upstream counted, shared out by what the parts may take.

The bill counts a prompt in up to four parts, which follow each other in the order of the prompt (tools,
system, messages): read from the cache, written for an hour, written for five minutes, uncached. Each part
ends at a cache marker, so the counts are exact sizes of stretches of the prompt. Within a stretch, tokens
are estimated by bytes (``token_rules``) and scaled to the count. The scale says how good the estimate was.

Where the read stretch ends is known by its size alone: at the marker that fits best, else at the block
that does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from conversations.cache_rules import ModelRules
from conversations.media_tokens import estimate_document, estimate_image
from conversations.summaries import MAX_MARKERS, PromptTokens
from conversations.token_rules import ModelTokens, TextKind, TokenRules, read_token_rules
from conversations.units import Prompt
from conversations.xray import Category, Span

type Part = Literal["read", "written_1h", "written_5m", "uncached"]

PARTS: tuple[Part, ...] = ("read", "written_1h", "written_5m", "uncached")
LEAST_SCALE, MOST_SCALE = 0.7, 1.4  # outside of these an estimate is called rough
NEAR_MARKER = 0.15  # of the cached prefix: a marker no farther than this from the count ends it
_TEXTS: dict[Category, TextKind] = {
    "tool": "json",
    "system": "prose",
    "memory": "prose",
    "reminder": "prose",
    "user_text": "prose",
    "assistant_text": "prose",
    "system_message": "prose",
    "tool_call": "json",
    "tool_result": "code",
    "thinking": "prose",
}
_FRONT: dict[Category, int] = {"tool": 0, "deferred_tool": 0, "system": 1, "attribution": 1}
_MESSAGES = 2


class Share(NamedTuple):
    """A span with its tokens, and the part of the bill they are in. Spans that the model does not read
    have 0."""

    span: Span
    tokens: int
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the bill, with the bytes and the estimated tokens of the spans it was distributed to."""

    part: Part
    size: int
    tokens: int
    estimate: float

    @property
    def scale(self) -> float | None:
        """Return the factor from the estimate to the billed tokens, or None without an estimate."""
        return self.tokens / self.estimate if self.estimate else None

    @property
    def is_rough(self) -> bool:
        """Return whether the estimate is far from the billed count."""
        return self.scale is None or not LEAST_SCALE <= self.scale <= MOST_SCALE


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenShares:
    """The spans of a body with their tokens, in the order of the prompt, and the stretches of the bill.

    ``added`` are tokens of no span: the prompt for tools that upstream adds, and those of a stretch
    without spans. The tokens of all spans and ``added`` together are those of the bill. ``tool_prompt``
    are those of ``added`` before the first tool."""

    shares: Sequence[Share]
    stretches: Sequence[Stretch]
    added: dict[Part, int]
    is_end_of_read_known: bool
    tool_prompt: int

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.stretches)

    @property
    def rough_tokens(self) -> int:
        """Return the number of tokens in stretches with a rough estimate."""
        return sum(each.tokens for each in self.stretches if each.is_rough)


class _Weighed(NamedTuple):
    span: Span
    weight: float


def share_tokens(
    body: bytes,
    spans: Sequence[Span],
    prompt: Prompt,
    billed: PromptTokens,
    model: str | None,
    cache_rules: ModelRules,
    rules: TokenRules | None = None,
) -> TokenShares:
    """Return the tokens of the spans of a request.

    ``prompt`` is the prompt of the body, ``billed`` the counts of the pass that read it,
    ``cache_rules`` those of its model."""
    rules = rules or read_token_rules()
    of_model = rules.find(model)
    dropped = _find_dropped(spans, cache_rules)
    ordered = sorted((span for span in spans if span.category != "envelope"), key=_place)
    weighed = [
        _Weighed(span, 0.0 if span in dropped else _weigh(body, span, of_model, rules))
        for span in ordered
    ]
    tool_prompt = _count_tool_prompt(prompt, weighed, of_model)
    sums = list(accumulate((each.weight for each in weighed), initial=float(tool_prompt)))
    ends, is_known = _find_ends(_find_marker_ends(weighed, prompt), sums, billed)
    shares: list[Share] = []
    stretches: list[Stretch] = []
    added: dict[Part, int] = {}
    extra, prompt_tokens = float(tool_prompt), 0  # stands before the first tool
    for part, tokens, (start, end) in zip(
        PARTS, _counts(billed), pairwise((0, *ends)), strict=True
    ):
        inside = weighed[start:end]
        fits = extra if tokens else 0.0
        counts = _share_out(tokens, [*(each.weight for each in inside), fits])
        shares += [
            Share(each.span, count, part) for each, count in zip(inside, counts[:-1], strict=True)
        ]
        if counts[-1]:
            added[part] = counts[-1]
        if fits:
            prompt_tokens = counts[-1]
        if tokens or inside:
            estimate = sum(each.weight for each in inside) + fits
            size = sum(each.span.size for each in inside)
            stretches.append(Stretch(part=part, size=size, tokens=tokens, estimate=estimate))
        extra = 0.0 if tokens else extra
    shares += [Share(span, 0, "uncached") for span in spans if span.category == "envelope"]
    return TokenShares(
        shares=shares,
        stretches=stretches,
        added=added,
        is_end_of_read_known=is_known,
        tool_prompt=prompt_tokens,
    )


def _place(span: Span) -> tuple[int, int]:
    """Return a sort key for the place of a span in the prompt, whose order differs from that of the body."""
    level = _FRONT.get(span.category, _MESSAGES) if span.message is None else _MESSAGES
    return level, span.start


def _weigh(body: bytes, span: Span, of_model: ModelTokens, rules: TokenRules) -> float:
    """Return the estimated number of tokens of a span."""
    if span.category == "image":
        return estimate_image(body[span.start : span.end], of_model, rules)
    if span.category == "document":
        return estimate_document(body[span.start : span.end], rules)
    if span.category == "unread":
        return span.size / rules.bytes_per_token["json"]
    kind = _TEXTS.get(span.category)
    return 0.0 if kind is None else span.size / rules.bytes_per_token[kind]


def _find_dropped(spans: Sequence[Span], cache_rules: ModelRules) -> set[Span]:
    """Return the spans of thinking that upstream drops: before the last text of the user, for older
    models."""
    if cache_rules.keeps_thinking is not False:
        return set()
    said = [span.message for span in spans if span.category == "user_text"]
    last = max((number for number in said if number is not None), default=-1)
    return {
        span
        for span in spans
        if span.category == "thinking" and span.message is not None and span.message < last
    }


def _count_tool_prompt(prompt: Prompt, weighed: Sequence[_Weighed], of_model: ModelTokens) -> int:
    if not any(each.span.category == "tool" for each in weighed):
        return 0
    is_forced = prompt.parameters.tool_choice.startswith(("any", "tool "))
    return of_model.tool_prompt_forced if is_forced else of_model.tool_prompt


def _find_marker_ends(weighed: Sequence[_Weighed], prompt: Prompt) -> dict[str, list[int]]:
    """Return for each lifetime the number of spans before the end of each of its markers."""
    places = [
        (_place(span)[0], -1 if span.message is None else span.message, span.block or 0)
        for span, _ in weighed
    ]
    levels = {"tools": 0, "system": 1, "messages": 2}
    found: dict[str, list[int]] = {"5m": [], "1h": []}
    for marker in prompt.markers[-MAX_MARKERS:]:
        unit = prompt.units[marker.place]
        key = levels[unit.level], unit.message, unit.block
        found[marker.ttl].append(sum(place <= key for place in places))
    return found


def _find_ends(
    markers: dict[str, list[int]], sums: Sequence[float], billed: PromptTokens
) -> tuple[tuple[int, int, int, int], bool]:
    """Return the number of spans up to the end of each part, and whether reads end at a marker.

    ``sums`` are the accumulated estimates of the spans."""
    count = len(sums) - 1
    every = sorted([*markers["5m"], *markers["1h"]])
    if not billed.prefix:
        return (0, 0, 0, count), True
    if not billed.uncached:
        cached = count
    else:
        wanted = billed.prefix / billed.total * sums[-1]
        cached = every[-1] if every else _find_nearest(range(count + 1), sums, wanted)
    read, is_known = cached, bool(every)
    if billed.written and billed.read:
        wanted = billed.read / billed.prefix * sums[cached]
        read = _find_nearest([each for each in every if each < cached] or [0], sums, wanted)
        is_known = read > 0 and abs(sums[read] - wanted) <= NEAR_MARKER * sums[cached]
        if not is_known:
            read = _find_nearest(range(cached + 1), sums, wanted)
    elif billed.written:
        read = 0
    hour = read
    if billed.written_1h:
        later = [each for each in markers["1h"] if read < each <= cached]
        hour = later[-1] if later and billed.written_5m else cached
    return (read, hour, cached, count), is_known


def _find_nearest(ends: Sequence[int], sums: Sequence[float], wanted: float) -> int:
    return min(ends, key=lambda each: abs(sums[each] - wanted))


def _counts(billed: PromptTokens) -> tuple[int, int, int, int]:
    return billed.read, billed.written_1h, billed.written_5m, billed.uncached


def _share_out(tokens: int, weights: Sequence[float]) -> list[int]:
    """Return whole numbers in proportion to the weights, whose sum is ``tokens``.

    If all weights are 0, the last number is ``tokens``."""
    sums = list(accumulate(weights))
    total = sums[-1]
    if not total:
        return [*[0] * (len(weights) - 1), tokens]
    counts, before = [], 0
    for done in sums:
        now = round(tokens * (done / total))
        counts.append(now - before)
        before = now
    return counts
