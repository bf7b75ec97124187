"""Rules about caching: missing, never read, or with a longer lifetime than needed."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from conversations.savings.calls import Chain, SavingsCall
from conversations.savings.kinds import NEEDLESS_HOUR, NEVER_CACHED, NEVER_READ
from conversations.savings.ledger import Ledger
from metering.model_names import is_same_model

LIFETIME_S, HOUR_S = 300.0, 3600.0
# The largest smallest prefix of any model: for models whose own is not known.
MINIMUM_TOKENS = 4_096


def blame_never_cached(chain: Chain, ledger: Ledger) -> None:
    """Enter in the ledger the cost of repeated tokens in runs of calls without any caching."""
    run: list[SavingsCall] = []
    for call in chain:
        if run and not _goes_on(run[-1], call):
            _claim_run(run, ledger)
            run = []
        if not call.tokens.prefix and call.tokens.total:
            run.append(call)
    _claim_run(run, ledger)


def blame_never_read(chain: Chain, calls: Sequence[SavingsCall], ledger: Ledger) -> None:
    """Enter in the ledger the cost of cache writes that no later call of the session read.

    Writes of the last call of a conversation are left out, because the next call would have read them.
    So are writes that were not read because of a cache break, which is charged instead."""
    if len(chain) > 1:
        chain = chain[:-1]
    broken = {call.previous_id for call in calls if call.cache_break is not None}
    for call in chain:
        if call.id in broken:
            continue
        unread = call.tokens.written - _count_read(call, calls)
        for part in ("written_1h", "written_5m"):
            tokens = ledger.take(call, part, unread)
            unread -= tokens
            more = call.price_change(part, "uncached")
            ledger.note(NEVER_READ, call, tokens, None if more is None else tokens * more)


def blame_needless_hours(chain: Chain, ledger: Ledger) -> None:
    """Enter in the ledger the extra cost of the one-hour lifetime if all pauses were short.

    Short means not longer than five minutes."""
    if len(chain) < 2 or any(b.began_at - a.began_at >= LIFETIME_S for a, b in pairwise(chain)):
        return
    for call in chain:
        tokens = ledger.take(call, "written_1h", call.tokens.written_1h)
        more = call.price_change("written_1h", "written_5m")
        ledger.note(NEEDLESS_HOUR, call, tokens, None if more is None else tokens * more)


def _goes_on(before: SavingsCall, call: SavingsCall) -> bool:
    return (
        not call.tokens.prefix
        and call.began_at - before.began_at <= LIFETIME_S
        and is_same_model(before.model, call.model)
    )


def _claim_run(run: Sequence[SavingsCall], ledger: Ledger) -> None:
    """Enter in the ledger the tokens that a run of calls repeated, minus the cost of caching them."""
    if len(run) < 2 or run[0].tokens.total < (run[0].minimum_tokens or MINIMUM_TOKENS):
        return
    cost = _price_writes(run[0], run[0].tokens.total)
    saved: list[tuple[SavingsCall, int, Decimal]] = []
    for before, call in pairwise(run):
        repeated = min(before.tokens.total, call.tokens.total)
        less = call.price_change("uncached", "read")
        written = _price_writes(call, call.tokens.total - repeated)
        if less is None or written is None or cost is None:
            return
        cost += written
        saved.append((call, repeated, repeated * less))
    total = sum((each[2] for each in saved), Decimal(0))
    if cost is None or total <= cost:
        return
    for call, repeated, cents in saved:
        tokens = ledger.take(call, "uncached", repeated)
        share = cents * (total - cost) / total
        ledger.note(NEVER_CACHED, call, tokens, share * tokens / repeated if repeated else None)


def _price_writes(call: SavingsCall, tokens: int) -> Decimal | None:
    """Return the extra cost in cents of writing ``tokens`` to the cache over sending them, or None.

    None if a price is unknown."""
    more = call.price_change("written_5m", "uncached")
    return None if more is None else tokens * more


def _count_read(call: SavingsCall, calls: Sequence[SavingsCall]) -> int:
    """Return how many tokens that ``call`` wrote to the cache were read by another call in time.

    In time means before they expired. This is an upper estimate: it is not known which entry a call
    read, so any call in time, with the same model and number of tools, may have read this one."""
    lifetime_s = HOUR_S if call.tokens.written_1h else LIFETIME_S
    most = max(
        (
            each.tokens.read
            for each in calls
            if 0 < each.began_at - call.began_at <= lifetime_s
            and is_same_model(each.model, call.model)
            and each.tool_count == call.tool_count
        ),
        default=0,
    )
    most = max(most, call.read_elsewhere)
    return max(0, min(most, call.tokens.prefix) - call.tokens.read)
