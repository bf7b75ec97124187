"""Rules about tokens that were paid for again: cache breaks, and pauses beyond the cache lifetime."""

from decimal import Decimal

from conversations.savings.calls import Break, Chain, SavingsCall
from conversations.savings.kinds import CACHE_BREAK, IDLE_GAP, LONG_GAP
from conversations.savings.ledger import Ledger

EXPIRED = "expired"
HOUR_S = 3600.0


def blame_breaks(chain: Chain, ledger: Ledger) -> None:
    """Enter in the ledger the cost of cache breaks that no pause explains."""
    for call in chain:
        found = call.cache_break
        if found is not None and found.cause != EXPIRED:
            _claim(call, found, ledger)


def blame_pauses(chain: Chain, ledger: Ledger) -> None:
    """Enter in the ledger the cost of cache breaks after pauses.

    Those after pauses of up to an hour count only if a cache lifetime of an hour would have been
    cheaper."""
    short: list[tuple[SavingsCall, Break]] = []
    for call in chain:
        found = call.cache_break
        if found is None or found.cause != EXPIRED:
            continue
        if found.gap_s <= HOUR_S:
            short.append((call, found))
        else:
            tokens = ledger.take_rewritten(call, found.tokens)
            ledger.note(LONG_GAP, call, tokens, _share(found, tokens))
    price = _price_hour(chain, {call.id: found for call, found in short})
    extras = [found.extra_cents for _, found in short]
    paid = sum((each for each in extras if each is not None), Decimal(0))
    if price is None or None in extras or paid <= price:
        return
    for call, found in short:
        tokens = ledger.take_rewritten(call, found.tokens)
        cents = _share(found, tokens)
        ledger.note(IDLE_GAP, call, tokens, cents and cents * (paid - price) / paid)


def _price_hour(chain: Chain, short: dict[int, Break]) -> Decimal | None:
    """Return the extra cost in cents of a conversation's cache writes with a lifetime of an hour.

    Writes that a pause caused are left out. None if a price is unknown."""
    total = Decimal(0)
    for call in chain:
        again = short[call.id].tokens if call.id in short else 0
        written = max(0, call.tokens.written_5m - again)
        more = call.price_change("written_1h", "written_5m")
        if written and more is None:
            return None
        total += written * (more or 0)
    return total


def _claim(call: SavingsCall, found: Break, ledger: Ledger) -> None:
    tokens = ledger.take_rewritten(call, found.tokens)
    ledger.note(CACHE_BREAK, call, tokens, _share(found, tokens), found.cause)


def _share(found: Break, tokens: int) -> Decimal | None:
    """Return the cost in cents of ``tokens`` of a break's tokens, in proportion, or None if unknown."""
    if found.extra_cents is None or not found.tokens:
        return None
    return found.extra_cents * tokens / found.tokens
