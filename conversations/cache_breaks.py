"""Cache breaks: calls that read less of the cache than the call before had left there, and their cost.

With K the size of the prefix that the predecessor left, and T and R the prompt and the reads of the call:

    missed = min(K, T) - R       a break: at least 2,000 tokens, and more than 5 % of K

All of that is billed, so it is *measured*. That the tokens would have been read otherwise, and why they
were not (``causes``), is *inferred*, and kept apart. A difference in bytes alone never makes a break.

Never a break: the first call of a conversation, the first one after its history was shortened, a side
call, a prompt that is too short to be cached.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from conversations.cache_rules import read_own_rules
from conversations.causes import Cause, Situation, explain
from conversations.diagnosis import NO_REPORT, CacheReport
from conversations.predecessor import FoundBy, Predecessor, is_compacted_by, is_same_group
from conversations.summaries import CallSummary
from conversations.units import Prompt
from metering.billed_passes import Call
from metering.model_names import is_same_model
from metering.prices import PriceTable
from metering.rewrites import COMPONENTS, price_rewritten, share_rewritten
from wire.request import Request

METHOD = 1  # of all that is stored of a break; a change of the rules gets the next number
MIN_MISSED_TOKENS, MIN_MISSED_SHARE = 2_000, Decimal("0.05")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The arithmetic of a break, from billed tokens.

    ``prefix_tokens`` is the size of the prefix that the predecessor had left in the cache.
    ``is_estimated``: that size is converted from the tokenizer of another model, or the prefix ends
    before a reminder. ``gap_s`` is the time since any call used that prefix."""

    predecessor: CallSummary
    found_by: FoundBy
    prefix_tokens: int
    read_tokens: int
    missed_tokens: int
    gap_s: float
    is_estimated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBreak:
    """A cache break in stored form. Fields up to ``is_estimated`` are measured, from ``found_by`` on
    inferred.

    ``tokens`` were written again or sent uncached, and ``extra_cost_cents`` is their cost above that of
    reading them, None if a price is unknown. ``upstream_reason`` is upstream's own diagnosis and
    ``upstream_tokens`` its estimate."""

    entry_id: str
    predecessor_entry_id: str
    method: int
    prefix_tokens: int
    read_tokens: int
    tokens: int
    gap_ms: int
    extra_cost_cents: Decimal | None
    is_estimated: bool
    found_by: FoundBy
    cause: Cause
    detail: str
    upstream_reason: str | None
    upstream_tokens: int | None


def measure_break(
    call: CallSummary,
    before: Predecessor,
    candidates: Sequence[CallSummary],
) -> Measured | None:
    """Return the arithmetic of a break between a call and its predecessor, or None without a break."""
    if not call.tokens.total or _is_expected(call, before.call, candidates):
        return None
    prefix = before.call.prefix_tokens
    if not prefix:
        return None
    kept = _find_kept_share(before.call, call)
    is_estimated = kept < 1
    if _has_other_tokenizer(before.call, call):
        prefix, is_estimated = _convert_prefix(before.call, call), True
    prefix = round(prefix * kept)
    missed = min(prefix, call.tokens.total) - call.tokens.read
    if missed < MIN_MISSED_TOKENS or missed <= MIN_MISSED_SHARE * prefix:
        return None
    if call.tokens.total < _find_minimum(call):
        return None
    return Measured(
        predecessor=before.call,
        found_by=before.found_by,
        prefix_tokens=prefix,
        read_tokens=call.tokens.read,
        missed_tokens=missed,
        gap_s=call.began_at - _find_last_use(before.call, call, candidates),
        is_estimated=is_estimated,
    )


def explain_break(
    call: CallSummary,
    measured: Measured,
    bill: Call,
    prices: PriceTable,
    *,
    prompt: Prompt | None = None,
    before: Prompt | None = None,
    requests: tuple[Request, Request] | None = None,
    report: CacheReport = NO_REPORT,
) -> CacheBreak:
    """Return a break with its cost and its cause.

    ``prompt`` and ``before`` are the prompts of the call and of its predecessor, ``requests`` both
    requests, predecessor first; without these the detail quotes no text. ``bill`` has the facts that
    the cost of the call is made from."""
    cause, detail = explain(
        Situation(
            call=call,
            before=measured.predecessor,
            gap_s=measured.gap_s,
            prefix_tokens=measured.prefix_tokens,
            prompt=prompt,
            prompt_before=before,
            requests=requests,
            report=report,
            rules=read_own_rules(),
        )
    )
    billed = (call.tokens.written_1h, call.tokens.written_5m, call.tokens.uncached)
    parts = share_rewritten(measured.missed_tokens, dict(zip(COMPONENTS, billed, strict=True)))
    return CacheBreak(
        entry_id=call.entry_id,
        predecessor_entry_id=measured.predecessor.entry_id,
        method=METHOD,
        prefix_tokens=measured.prefix_tokens,
        read_tokens=measured.read_tokens,
        tokens=sum(parts.values()),
        gap_ms=round(measured.gap_s * 1000),
        extra_cost_cents=price_rewritten(parts, call.pass_index, bill, prices),
        is_estimated=measured.is_estimated,
        found_by=measured.found_by,
        cause=cause,
        detail=detail,
        upstream_reason=report.reason,
        upstream_tokens=report.missed_tokens,
    )


def _is_expected(call: CallSummary, before: CallSummary, candidates: Iterable[CallSummary]) -> bool:
    """Return whether the history was shortened since the predecessor, so that missing reads are expected.

    The header that says so is sent once. If the call with it failed, it counts for the next one."""
    if call.is_rebuild or is_compacted_by(call, before):
        return True
    if call.prompt and before.prompt and call.prompt.is_continuation:
        return not before.prompt.is_continuation
    return any(
        each.is_rebuild
        and each.answered_at is None
        and before.began_at < each.began_at < call.began_at
        and is_same_group(each, call)
        for each in candidates
    )


def _find_kept_share(before: CallSummary, call: CallSummary) -> float:
    """Return the share (0 to 1) of the predecessor's prefix that the call still has.

    Only reminders can reduce it. The model does not see a reminder after the next message of the user,
    so the prefix differs from there on. The kept part ends at the last marker before the reminder."""
    if before.prompt is None or call.prompt is None or before.prompt.reminder is None:
        return 1.0
    place, message = before.prompt.reminder
    markers = before.prompt.markers
    if call.prompt.last_user_message <= message or not markers or not markers[-1].size:
        return 1.0
    return max((each.size for each in markers if each.place < place), default=0) / markers[-1].size


def _has_other_tokenizer(before: CallSummary, call: CallSummary) -> bool:
    if before.model is None or call.model is None:
        return False
    return not is_same_model(before.model, call.model)


def _convert_prefix(before: CallSummary, call: CallSummary) -> int:
    """Return the size of the predecessor's prefix in tokens of this call's model.

    It is estimated from its share of the bytes of this prompt, and unchanged if these are not known."""
    if before.prompt is None or call.prompt is None or not call.prompt.size:
        return before.prefix_tokens or 0
    markers = before.prompt.markers
    size = markers[-1].size if markers else before.prompt.size
    return min(call.tokens.total * size // call.prompt.size, call.tokens.total)


def _find_minimum(call: CallSummary) -> int:
    day = datetime.fromtimestamp(call.began_at, UTC).date()
    return read_own_rules().find(call.model, day).minimum_tokens or 0


def _find_last_use(
    before: CallSummary, call: CallSummary, candidates: Iterable[CallSummary]
) -> float:
    """Return the instant (s since 1970) at which a call last wrote or read the predecessor's prefix.

    A read renews the prefix, and its lifetime runs from the start of a request."""
    latest = before.began_at
    prefix = _cached_digests(before)
    for each in candidates:
        if (
            prefix is not None
            and each.prompt is not None
            and each.answered_at is not None
            and each.tokens.prefix
            and latest < each.began_at < call.began_at
            and is_same_model(each.model, before.model)
            and each.prompt.digests.startswith(prefix)
        ):
            latest = each.began_at
    return latest


def _cached_digests(call: CallSummary) -> bytes | None:
    if call.prompt is None or not call.prompt.markers:
        return None
    return call.prompt.slice_digests(0, call.prompt.markers[-1].place + 1)
