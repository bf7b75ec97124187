"""Billed passes of a call, and all else that its cost depends on.

A call is one pass of a model or, where upstream lists ``iterations``, several: compaction, advisor,
the turns of a tool loop, a model that declined and the one that took over. Each pass is billed by
itself, unless

- its model declined before any output, in a category that is not billed then (``refusals``), whether
  another model took over or not;
- the response is an error.

Where the category is billed, it is for the input. A pass that is not billed keeps its items, with the
reason, so that what is free can be told from what has no known price.

Which model declined follows from the ``fallback`` blocks in the content, in order: upstream lists a
model that declined and the turns of a tool loop under the same type.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from metering import refusals
from metering.components import INPUT, OUTPUT, TOKEN_COMPONENTS, WEB_SEARCH
from metering.entry import (
    COUNT_MISSING,
    CostItem,
    CostNote,
    Outcome,
    Product,
    UnbilledReason,
    UsageSource,
)
from metering.model_names import is_same_model
from metering.usage import Hop, Pass, Usage

ATTEMPT, FALLBACK_ATTEMPT = "message", "fallback_message"
ATTEMPTS = (ATTEMPT, FALLBACK_ATTEMPT)
UNBILLED_OUTCOMES: tuple[Outcome, ...] = ("upstream_error", "upstream_unreachable")
FIRST_FAILURE_STATUS = 300
PLACEHOLDER_OUTPUT_TOKENS = 1  # what upstream may count where there is no output


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class Call:
    """All facts that the cost of a call depends on, except prices. It can be made again from stored data.

    ``speed`` is that of the passes of ``model`` that name none; passes of other models then have the
    standard speed. The ``items`` are those of the bill; their prices are ignored, and those of
    ``make_call`` have none. ``upstream`` is the name of the endpoint's own upstream, which has prices
    of its own."""

    created_at: datetime
    outcome: Outcome
    status_code: int | None
    usage_source: UsageSource
    model: str | None
    service_tier: str | None
    speed: str | None
    inference_geo: str | None
    items: Sequence[CostItem]
    product: Product = "messages"
    upstream: str | None = None

    @property
    def is_unbilled(self) -> bool:
        """Return whether this is a call without usage that upstream does not bill.

        An error is not billed, nor is a request that was never sent. For any other call without usage the
        response was lost or never came, and upstream may have done the work."""
        return self.usage_source == "none" and not may_be_billed(
            self.outcome, self.status_code, self.usage_source
        )


class _Reasons(NamedTuple):
    """The reasons why the input and the output of an attempt are not billed, None if they are."""

    input: UnbilledReason | None = None
    output: UnbilledReason | None = None


class _Attributed(NamedTuple):
    """A pass, and the number of models of the chain that had declined before it."""

    counts: Pass
    hop: int

    @property
    def is_attempt(self) -> bool:
        """Return whether the pass answers the request, rather than compacting it or giving advice."""
        return self.counts.type in ATTEMPTS


_BILLED = _Reasons()


def is_failure(status_code: int | None) -> bool:
    """Return whether a status code means that no model has answered."""
    return status_code is not None and status_code >= FIRST_FAILURE_STATUS


def may_be_billed(outcome: Outcome, status_code: int | None, usage_source: UsageSource) -> bool:
    """Return whether upstream may have billed a call without known usage.

    It may have done the work if the request was sent and the response was lost, cut off before its
    first counts, or never came."""
    if usage_source != "none" or outcome in UNBILLED_OUTCOMES:
        return False
    return not is_failure(status_code)


def make_call(
    usage: Usage,
    *,
    created_at: datetime,
    outcome: Outcome,
    status_code: int | None,
    product: Product = "messages",
    upstream: str | None = None,
) -> Call:
    """Return the facts that the cost of a call depends on.

    There is an item for each quantity that is not 0, and for each that upstream has left out."""
    return Call(
        created_at=created_at,
        outcome=outcome,
        status_code=status_code,
        usage_source=usage.source,
        model=usage.model,
        service_tier=usage.service_tier,
        speed=usage.speed,
        inference_geo=usage.inference_geo,
        items=_list_items(usage, created_at, status_code),
        product=product,
        upstream=upstream,
    )


def _list_items(usage: Usage, created_at: datetime, status_code: int | None) -> list[CostItem]:
    if usage.source == "none":
        return []
    passes = _attribute(usage)
    reasons = _find_reasons(usage, passes, created_at, status_code)
    note: CostNote | None = "sum_of_passes" if usage.is_sum else None
    items = [
        item
        for index, each in enumerate(passes)
        for item in _list_tokens(
            index, each.counts, reasons[each.hop] if each.is_attempt else _BILLED, note
        )
    ]
    if usage.web_search_requests:
        item = _make_search_item(usage.web_search_requests, passes, reasons)
        items.append(item._replace(estimated=usage.source == "estimated"))
    return items


def _make_search_item(
    searches: int, passes: Sequence[_Attributed], reasons: Sequence[_Reasons]
) -> CostItem:
    """Return the item for the searches, which belong to the last pass that is billed in full.

    A model that declined before any output has not searched. Upstream does not say which pass searched."""
    full = [n for n, each in enumerate(passes) if reasons[each.hop] == _BILLED]
    index = full[-1] if full else len(passes) - 1
    model, reason = passes[index].counts.model, reasons[passes[index].hop].input
    return CostItem(index, model, WEB_SEARCH.name, searches, 0, None, reason)


def _list_tokens(
    index: int, counts: Pass, reasons: _Reasons, note: CostNote | None
) -> list[CostItem]:
    prompt_tokens = counts.tokens.prompt or 0
    items = [
        CostItem(
            index,
            counts.model,
            component.name,
            quantity,
            prompt_tokens,
            counts.speed,
            reasons.output if component is OUTPUT else reasons.input,
            (counts.note or note) if component is OUTPUT else note,
            counts.estimates_output if component is OUTPUT else counts.estimates_prompt,
        )
        for component in TOKEN_COMPONENTS
        if (quantity := component.quantity(counts))
    ]
    if counts.tokens.input_tokens is None or counts.tokens.output_tokens is None:
        items += _list_missing(index, counts, reasons)
    return items


def _list_missing(index: int, counts: Pass, reasons: _Reasons) -> list[CostItem]:
    """Return an item for each count that upstream always sends but did not, and that would be billed.

    Without these items the known part would look like the whole cost. Counts of the cache may be left
    out for 0."""
    return [
        CostItem(index, counts.model, component.name, 0, 0, counts.speed, None, COUNT_MISSING)
        for component, reason in ((INPUT, reasons.input), (OUTPUT, reasons.output))
        if reason is None and component.quantity(counts) is None
    ]


def _attribute(usage: Usage) -> list[_Attributed]:
    """Return the passes of a call with their models.

    If the list of passes is older than the counts, only its passes that the counts leave out are used:
    compaction, advice, models that declined."""
    serving = len(usage.hops)
    whole = Pass(
        type=ATTEMPT,
        model=usage.model,
        tokens=usage.tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
    )
    if not usage.passes:
        return [_Attributed(whole, serving)]
    passes = [
        _Attributed(each if each.model else replace(each, model=_name_model(usage, hop)), hop)
        for each, hop in zip(usage.passes, find_hops(usage.passes, usage.hops), strict=True)
    ]
    if not usage.passes_are_stale:
        return passes
    left_out = [each for each in passes if each.hop != serving or not each.is_attempt]
    return [*left_out, _Attributed(whole, serving)]


def _name_model(usage: Usage, hop: int) -> str | None:
    return usage.hops[hop].from_model if hop < len(usage.hops) else usage.model


def find_hops(passes: Sequence[Pass], hops: Sequence[Hop]) -> list[int]:
    """Return for each pass the number of models that had declined before it.

    A pass belongs to the next model of the chain if it names that model, which may be by another name,
    or names another one than the pass before. The last attempt always belongs to the last model. A pass
    that is no attempt belongs to the attempt after it."""
    serving = len(hops)
    if not serving:
        return [0] * len(passes)
    found = [serving] * len(passes)
    chain = [hops[0].from_model, *(hop.to_model for hop in hops)]
    attempts = [n for n, each in enumerate(passes) if each.type in ATTEMPTS]
    hop, before, start = 0, None, 0
    for n in attempts[:-1]:
        hop = _advance(chain, hop, passes[n], before)
        found[start : n + 1] = [hop] * (n + 1 - start)
        before, start = passes[n], n + 1
    return found


def _advance(chain: Sequence[str | None], hop: int, this: Pass, before: Pass | None) -> int:
    """Return the place in the chain of the model of this attempt, at or after that of ``hop``."""
    last = len(chain) - 1
    named = (n for n in range(hop, last + 1) if is_same_model(chain[n], this.model))
    is_next = before is not None and (this.model is None or this.model != before.model)
    return next(named, min(hop + is_next, last))


def _find_reasons(
    usage: Usage, passes: Sequence[_Attributed], at: datetime, status_code: int | None
) -> list[_Reasons]:
    """Return for each model of the chain the reasons why its attempts are not billed."""
    if is_failure(status_code) and usage.is_empty:
        return [_Reasons("failed", "failed")] * (len(usage.hops) + 1)
    declined = _find_declined(usage, passes, at) if usage.hops else []
    if usage.stop_reason == refusals.STOP_REASON and usage.is_empty:
        last = _explain_refusal("refused_before_output", usage.refusal_category, at)
        return [*declined, last]
    return [*declined, _BILLED]


def _find_declined(usage: Usage, passes: Sequence[_Attributed], at: datetime) -> list[_Reasons]:
    # A document leaves out what a model wrote before it declined; the counts have it.
    counted = {
        each.hop
        for each in passes
        if usage.is_document
        and each.is_attempt
        and (each.counts.tokens.output_tokens or 0) > PLACEHOLDER_OUTPUT_TOKENS
    }
    return [
        _BILLED
        if hop.has_output or index in counted
        else _explain_refusal("declined_hop", hop.category, at)
        for index, hop in enumerate(usage.hops)
    ]


def _explain_refusal(reason: UnbilledReason, category: str | None, at: datetime) -> _Reasons:
    if refusals.is_billed_before_output(category, at):
        return _Reasons(output=reason)
    return _Reasons(input=reason, output=reason)
