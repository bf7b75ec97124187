"""Why a cache broke: inferred from the prompts, settings and times of two calls.

The first that fits: another model, a prefix that had expired, the first difference in the order of the
prefix, thinking that upstream dropped, a marker that moved. Otherwise the cause is unknown, which is a
real answer: upstream may lose a prefix for reasons of its own. It is the answer, too, where the bill
contradicts a difference: a marker stands before it in both requests, and yet nothing up to there was
read.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from conversations.cache_rules import CacheRules, ModelRules
from conversations.diagnosis import CacheReport
from conversations.differences import Difference, find_difference
from conversations.parameters import BY_MODEL, Change, list_changes
from conversations.summaries import CallSummary, PromptSummary
from conversations.unit import LEVELS
from conversations.unit_runs import CachedTo
from conversations.units import Prompt
from conversations.wording import (
    bound,
    describe_tools,
    describe_unit,
    name_place,
)
from metering.model_names import is_same_model
from wire.block import RESULT, THINKING_KINDS, CacheTtl
from wire.request import Request

type Cause = Literal[
    "system", "tools", "messages", "model", "order", "expired", "marker", "unknown"
]
type Requests = tuple[Request, Request]

# A size that is estimated by bytes may be off by so much.
FAR_BELOW, NEAR = 0.5, 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A break and all data that may explain it.

    ``prompt_before`` and ``requests`` are None if the bodies are not kept; then the detail quotes no
    text."""

    call: CallSummary
    before: CallSummary
    gap_s: float
    prefix_tokens: int
    prompt: Prompt | None
    prompt_before: Prompt | None
    requests: Requests | None
    report: CacheReport
    rules: CacheRules

    @property
    def prompts(self) -> tuple[PromptSummary, PromptSummary] | None:
        if self.before.prompt is None or self.call.prompt is None:
            return None
        return self.before.prompt, self.call.prompt

    @property
    def cached(self) -> tuple[CachedTo, ...]:
        return self.before.prompt.markers if self.before.prompt else ()

    @property
    def model_rules(self) -> ModelRules:
        day = datetime.fromtimestamp(self.call.began_at, UTC).date()
        return self.rules.find(self.call.model, day)

    def estimate_tokens(self, size: int) -> float:
        """Return the estimated number of tokens in the first ``size`` bytes of the predecessor's prefix."""
        whole = self.cached[-1].size if self.cached else 0
        return self.prefix_tokens * size / whole if whole else 0.0


class _Found(NamedTuple):
    cause: Cause
    detail: str


def explain(situation: Situation) -> tuple[Cause, str]:
    """Return the cause of a break, and a sentence of bounded length about it."""
    cause, detail = _explain(situation)
    if cause in (*LEVELS, "order", "unknown"):
        cause, detail = _heed_upstream(situation, cause, detail)
    return cause, bound(detail)


def _explain(situation: Situation) -> _Found:
    call, before = situation.call, situation.before
    if before.model and call.model and not is_same_model(before.model, call.model):
        return _Found("model", f"The model changed from {before.model} to {call.model}.")
    difference, change = _find_first(situation)
    if expired := _explain_expiry(situation, difference, change):
        return expired
    if situation.prompts is None or situation.prompt is None:
        return _Found("unknown", "The request or the one before is not kept or cannot be read.")
    if difference is not None:
        return _explain_difference(situation, difference)
    if change is not None:
        return _explain_change(situation, change)
    return (
        _explain_thinking(situation)
        or _explain_marker(situation)
        or _explain_images(situation)
        or _explain_nothing(situation)
    )


def _find_first(situation: Situation) -> tuple[Difference | None, Change | None]:
    """Return the first unit or the first setting that differs, with None for the other.

    Of both, the one of the earlier level is returned; at the same level the unit."""
    if situation.prompts is None:
        return None, None
    before, now = situation.prompts
    difference = find_difference(before, now)
    change = next(list_changes(before.parameters, now.parameters), None)
    if difference is None or change is None:
        return difference, change
    if LEVELS.index(change.level) < LEVELS.index(difference.level):
        return None, change
    return difference, None


def _explain_expiry(
    situation: Situation, difference: Difference | None, change: Change | None
) -> _Found | None:
    ttls = list_lifetimes(situation.before)
    lifetimes = {ttl: situation.rules.lifetimes_s[ttl] for ttl in ttls}
    longest = max(lifetimes, key=lambda ttl: lifetimes[ttl])
    gap = _format_gap(situation.gap_s)
    if situation.gap_s > lifetimes[longest]:
        also = ""
        if difference is not None:
            also = f" The {_name_level(difference.level)} had changed as well."
        elif change is not None:
            also = f" Besides, {change.title} had changed."
        return _Found(
            "expired",
            f"The cache had expired: it was last used {gap} before, and is kept for"
            f" {_format_ttl(longest)}.{also}",
        )
    shortest = min(lifetimes, key=lambda ttl: lifetimes[ttl])
    is_tail = difference is None and change is None and situation.call.tokens.read > 0
    if situation.gap_s > lifetimes[shortest] and is_tail:
        return _Found(
            "expired",
            f"The cache had expired in part: it was last used {gap} before; its last part is kept for"
            f" {_format_ttl(shortest)}.",
        )
    return None


def list_lifetimes(call: CallSummary) -> list[CacheTtl]:
    """Return the lifetimes of the cache entries that a call wrote or read.

    Writes are judged by the bill, reads by the markers of the request; without either it is five
    minutes."""
    found: set[CacheTtl] = set()
    if call.tokens.written_1h:
        found.add("1h")
    if call.tokens.written_5m:
        found.add("5m")
    if call.tokens.read or not found:
        found |= {marker.ttl for marker in (call.prompt.markers if call.prompt else ())}
    if not found:
        found.add(call.cache_ttl or "5m")
    return sorted(found)


def _explain_difference(situation: Situation, difference: Difference) -> _Found:
    if contradicted := _find_contradiction(situation, difference.before):
        return contradicted
    cause: Cause = "order" if difference.is_order else difference.level
    return _Found(cause, _describe_difference(situation, difference))


def _describe_difference(situation: Situation, difference: Difference) -> str:
    prompt, before, requests = situation.prompt, situation.prompt_before, situation.requests
    units = prompt.units if prompt else []
    unit = units[difference.now] if difference.now < len(units) else None
    if unit is None or unit.level != difference.level:
        place = f"the end of the {_name_level(difference.level)}"
    else:
        siblings = [each for each in units if each.message == unit.message]
        place = name_place(unit, with_block=len(siblings) > 1)
    if prompt is None or before is None or requests is None:
        return f"The cache broke at {place}."
    if difference.level == "tools":
        clause = describe_tools(before, prompt, requests)
    else:
        clause = describe_unit(before, prompt, (difference.before, difference.now), requests)
    return f"The cache broke at {place}: {clause}."


def _explain_change(situation: Situation, change: Change) -> _Found:
    before = situation.prompts[0] if situation.prompts else None
    if before is not None and change.name not in BY_MODEL:
        place = before.tools if change.level == "system" else before.front
        if contradicted := _find_contradiction(situation, place):
            return contradicted
    values = ""
    if change.before is not None and change.after is not None:
        values = f" from “{change.before}” to “{change.after}”"
    return _Found(change.level, f"The cache broke because {change.title} changed{values}.")


def _find_contradiction(situation: Situation, place: int) -> _Found | None:
    """Return the cause "unknown" if the bill contradicts a difference in a unit, otherwise None.

    ``place`` is the index of the unit. It does if both requests have a marker before the difference,
    the prefix up to there is long enough and was used in time, and yet little of it was read."""
    now = situation.call.prompt
    marked = {marker.place for marker in now.markers} if now else set()
    for marker in reversed(situation.cached):
        if marker.place >= place or marker.place not in marked:
            continue
        expected = situation.estimate_tokens(marker.size)
        minimum = situation.model_rules.minimum_tokens or 0
        is_in_time = situation.gap_s <= situation.rules.lifetimes_s[marker.ttl]
        is_cached = expected * FAR_BELOW > minimum and is_in_time
        if is_cached and situation.call.tokens.read < FAR_BELOW * expected:
            return _Found(
                "unknown",
                "The requests differ only after a cache breakpoint up to which both are the same,"
                " and still it was not read.",
            )
        return None
    return None


def _explain_thinking(situation: Situation) -> _Found | None:
    """Return the cause if upstream dropped earlier thinking, otherwise None.

    For some models it does so when a user message without tool results comes. No byte of the request
    differs then."""
    prompt = situation.prompt
    if prompt is None or situation.model_rules.keeps_thinking is not False:
        return None
    last = [unit for unit in prompt.units if unit.message == prompt.units[-1].message]
    if any(unit.kind == RESULT or unit.role != "user" for unit in last):
        return None
    limit = situation.cached[-1].place + 1 if situation.cached else 0
    size = 0
    for unit in prompt.units[:limit]:
        if unit.kind in THINKING_KINDS:
            if situation.call.tokens.read <= NEAR * situation.estimate_tokens(size):
                return _Found(
                    "messages",
                    f"Earlier thinking was dropped by the server, first in message"
                    f" {unit.message + 1}: the last message has no tool results.",
                )
            return None
        size += unit.size
    return None


def _explain_marker(situation: Situation) -> _Found | None:
    now, prompt = situation.call.prompt, situation.prompt
    if now is None or prompt is None or not situation.cached:
        return None
    last = situation.cached[-1].place
    if not now.markers:
        return _Found("marker", "The request has no cache breakpoint; the one before had.")
    if now.markers[-1].place < last:
        return _Found("marker", "The last cache breakpoint stands earlier than in the call before.")
    positions = prompt.count_positions()
    if last >= len(positions):
        return None
    distance = min(
        positions[marker.place] - positions[last]
        for marker in prompt.markers
        if marker.place >= last
    )
    if distance < situation.rules.lookback_positions:
        return None
    return _Found(
        "marker",
        f"The cache breakpoint stands {distance} blocks after the last one;"
        f" upstream looks back over {situation.rules.lookback_positions}.",
    )


def _explain_images(situation: Situation) -> _Found | None:
    """Return the cause if images were added or removed, which loses the cached messages, otherwise None."""
    if situation.prompts is None:
        return None
    before, now = (prompt.parameters.images for prompt in situation.prompts)
    if before == now:
        return None
    what = "added" if now > before else "removed"
    return _Found("messages", f"An image was {what}, which loses the cache of all messages.")


def _explain_nothing(situation: Situation) -> _Found:
    call, before = situation.call, situation.before
    gap = _format_gap(situation.gap_s)
    same = "Prompt, settings and model are the same, and the prefix was last used"
    if call.credential_hmac != before.credential_hmac:
        return _Found(
            "unknown",
            f"{same} {gap} before, with another credential, whose cache may be another one.",
        )
    return _Found("unknown", f"{same} {gap} before.")


def _heed_upstream(situation: Situation, cause: Cause, detail: str) -> tuple[Cause, str]:
    """Return upstream's own cause if it names another level than ours, with both in the detail."""
    theirs = situation.report.cause
    if theirs is None or theirs == cause or (cause == "order" and theirs != "model"):
        return cause, detail
    if cause == "unknown":
        return theirs, f"Upstream says that the {_name_level(theirs)} changed."
    return theirs, f"Upstream says that the {_name_level(theirs)} changed. {detail}"


def _name_level(level: str) -> str:
    return "system prompt" if level == "system" else level


def _format_gap(gap_s: float) -> str:
    seconds = max(round(gap_s), 0)
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _format_ttl(ttl: CacheTtl) -> str:
    return "one hour" if ttl == "1h" else "five minutes"
