"""Sentences about cache breaks, as pages of sessions and calls display them."""

from dataclasses import dataclass

from conversations.savings.breaks import EXPIRED, HOUR_S
from conversations.savings.kinds import CACHE_BREAK, IDLE_GAP, LONG_GAP
from metering.formats import format_cents, format_count
from runtime.safe_text import reveal
from store.traces.calls.cache_breaks import CacheBreak
from store.traces.calls.call_reader import Call

NOT_ALWAYS_COUNTED = (
    "It counts as a saving only where a lifetime of an hour would have cost less: that makes all writes of the"
    " conversation more expensive."
)
_FOUND_BY = {
    "upstream": "The request names the call before.",
    "chain": "The request begins with all messages of the call before.",
    "overlap": "Most messages of the call before are in the request.",
    "counts": "The numbers of messages fit. The bodies are not kept.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The cache break of a call, described for its page. ``previous_id`` is the row id of the call before,
    None if that call was removed. ``cost`` says how many tokens were paid for again, ``more`` the extra
    cost compared with reading them from the cache ("" if unknown), ``search`` how the call before was
    found, and ``advice`` how to avoid the break."""

    found: CacheBreak
    previous_id: int | None
    cause: str
    cost: str
    more: str
    search: str
    advice: str


def open_break(call: Call) -> Broken | None:
    """Return the description of a call's cache break, or None if it has none."""
    found = call.cache_break
    if found is None:
        return None
    return Broken(
        found=found,
        previous_id=call.predecessor_id,
        cause=describe_cause(found),
        cost=_describe_cost(found, call.entry.tokens.cache_creation_input_tokens),
        more=""
        if found.extra_cost_cents is None
        else f"{format_cents(found.extra_cost_cents)} more",
        search=_FOUND_BY.get(found.found_by, ""),
        advice=_advise(found, call.entry.client),
    )


def _advise(found: CacheBreak, client: str | None) -> str:
    if found.cause != EXPIRED:
        return CACHE_BREAK.find_remedy(found.cause, client)
    if found.gap_ms > 1000 * HOUR_S:
        return LONG_GAP.find_remedy("", client)
    return f"{IDLE_GAP.find_remedy('', client)} {NOT_ALWAYS_COUNTED}"


def describe_cause(found: CacheBreak) -> str:
    """Return the cause of a cache break, with control characters made visible."""
    return reveal(found.detail)


def _describe_cost(found: CacheBreak, written: int | None) -> str:
    """Return how many tokens were paid for again, as a sentence. ``written``: tokens that the call wrote
    to the cache."""
    about = "About " if found.estimated else ""
    verb = "written again" if (written or 0) >= found.tokens else "paid for again"
    return f"{about}{format_count(found.tokens)} tokens were {verb}"
