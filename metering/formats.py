"""Formatting of numbers for pages and the terminal: money, tokens, durations, sizes, shares.

An unknown number is never shown as 0, but as ``unknown``, for which the terminal has another
character. If a number is shortened, the exact value belongs in a title or on the call's own page.
Times are formatted in ``runtime.clock``."""

from decimal import Decimal

from metering.token_counts import PROMPT_CLASSES, TokenCounts

UNKNOWN = "—"
_SMALL_CENTS = 9.95  # below which two decimals would say too little
_TINY_CENTS = 0.05  # below which three decimals would say nothing
_MINUS = "\N{MINUS SIGN}"


def format_cents(cents: float | Decimal | None, unknown: str = UNKNOWN) -> str:
    """Return cents as dollars: with four decimals below a dollar, as for a call, otherwise with two."""
    if cents is None:
        return unknown
    dollars = float(cents) / 100
    if dollars == 0:
        return "$0"
    if dollars < 0.0001:
        return "<$0.0001"
    return f"${dollars:.4f}" if dollars < 0.99995 else f"${dollars:,.2f}"


def format_cents_for_column(cents: float | Decimal | None, unknown: str = UNKNOWN) -> str:
    """Return cents as dollars with four decimals for any amount, so that a column of them aligns."""
    return unknown if cents is None else f"${cents / 100:,.4f}"


def format_call_cost(cents: float | Decimal | None, unknown: str = UNKNOWN) -> str:
    """Return cents as dollars with three decimals, for turns and calls: ``$0.128``, and ``$0``."""
    return "$0" if cents == 0 else _format_decimals(cents, 3, unknown)


def format_sum_cost(cents: float | Decimal | None, unknown: str = UNKNOWN) -> str:
    """Return cents as dollars with two decimals, for sums: ``$36.58``."""
    return _format_decimals(cents, 2, unknown)


def format_some_cost(cents: float | None, unknown: str = UNKNOWN) -> str:
    """Return the cost of some calls: ``$4.89``, with three or four decimals below ten cents, and ``$0``."""
    if cents is None:
        return unknown
    if cents < _TINY_CENTS:
        return format_cents(cents)
    return format_call_cost(cents) if cents < _SMALL_CENTS else format_sum_cost(cents)


def _format_decimals(cents: float | Decimal | None, digits: int, unknown: str) -> str:
    """Return cents as dollars. An amount above 0 is never shown as 0."""
    if cents is None:
        return unknown
    dollars = float(cents) / 100
    least = 10.0**-digits
    if 0 < dollars < least / 2:
        return f"<${least:.{digits}f}"
    return f"${dollars:,.{digits}f}"


def format_sum_change(cents: float | Decimal) -> str:
    """Return a difference in cents as dollars with two decimals and a sign: ``+$7.29``."""
    text = format_sum_cost(-cents if cents < 0 else cents)
    return text if text == "$0.00" else f"{'+' if cents > 0 else _MINUS}{text}"


def format_cents_change(cents: Decimal) -> str:
    """Return a difference in cents as dollars with four decimals and a sign; 0 is ``$0.0000``."""
    text = format_cents_for_column(abs(cents))
    if text == format_cents_for_column(Decimal(0)):
        return text
    return f"{'+' if cents > 0 else _MINUS}{text}"


def format_signed_cents(cents: Decimal) -> str:
    """Return a difference in cents as dollars with a sign, rounded as by ``format_cents``."""
    text = format_cents(float(abs(cents)))
    if cents == 0 or text.startswith("<"):
        return text
    return f"{'+' if cents > 0 else _MINUS}{text}"


def format_count_change(count: int) -> str:
    """Return a difference of counts with all digits and a sign."""
    return f"{count:+,}".replace("-", _MINUS) if count else "0"


def format_dollars(amount: Decimal | None, unknown: str = UNKNOWN, *, digits: int = 2) -> str:
    """Return dollars with all decimals, so that a bill adds up, and at least ``digits`` of them."""
    if amount is None:
        return unknown
    whole, _, fraction = f"{amount:,f}".partition(".")
    return f"${whole}.{fraction.rstrip('0'):0<{max(digits, 2)}}"


def count_decimals(amount: Decimal) -> int:
    """Return the number of decimals of an amount, without zeros at its end."""
    return len(f"{amount:f}".partition(".")[2].rstrip("0"))


def format_count(count: int | None, unknown: str = UNKNOWN) -> str:
    """Return a count with all its digits, in groups of three."""
    return unknown if count is None else f"{count:,}"


def format_calls(count: int) -> str:
    """Return a number of calls: ``1 call``, ``1,204 calls``."""
    return format_number(count, "call")


def format_objects(count: int) -> str:
    """Return a number of managed sessions and dreams: ``2 managed sessions or dreams``."""
    return (
        f"{count:,} managed session{'' if count == 1 else 's'} or dream{'' if count == 1 else 's'}"
    )


def format_number(count: int, noun: str) -> str:
    """Return a number of things whose plural ends in s: ``1 database``, ``1,204 databases``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_ordinal(number: int) -> str:
    """Return a place in a row: ``1st``, ``2nd``, ``11th``, ``1,023rd``."""
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def format_tokens(count: int | None, unknown: str = UNKNOWN) -> str:
    """Return a number of tokens: all digits below 10,000, otherwise three digits with k, M or G."""
    if count is None:
        return unknown
    if count < 10_000:
        return f"{count:,}"
    for unit, letter in ((1_000, "k"), (1_000_000, "M")):
        short = count / unit
        if round(short, 1) < 1_000:
            return f"{short:.1f}{letter}" if round(short, 1) < 100 else f"{short:.0f}{letter}"
    return f"{count / 1_000_000_000:,.1f}G"


def format_short_tokens(count: int | None, unknown: str = UNKNOWN) -> str:
    """Return a number of tokens: all digits below 1,000, otherwise two or three: ``380``, ``2.1k``,
    ``131k``."""
    if count is not None and 1_000 <= count < 10_000:
        return f"{count / 1_000:.1f}k"
    return format_tokens(count, unknown)


def format_tokens_change(count: int) -> str:
    """Return a difference in tokens with a sign: ``+2.1k``."""
    text = format_short_tokens(abs(count))
    return text if not count else f"{'+' if count > 0 else _MINUS}{text}"


def format_prompt(tokens: TokenCounts) -> str:
    """Return the size of a prompt and of its known parts, with all digits."""
    parts = (
        f"{count:,} {each.title.lower()}"
        for each in PROMPT_CLASSES
        if (count := getattr(tokens, each.name)) is not None
    )
    return f"{format_count(tokens.prompt)} tokens: {', '.join(parts)}"


def format_cache_share(tokens: TokenCounts) -> str:
    """Return the share of the prompt that was read from the cache, as ``63 %``."""
    return format_per_cent(tokens.cache_read_input_tokens or 0, tokens.prompt or 0)


def format_per_cent(part: float, whole: float, unknown: str = UNKNOWN) -> str:
    """Return a part of a whole as ``63 %``. A part above 0 is never shown as 0 %, one below all never as
    100 %."""
    if not whole:
        return unknown
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "<1 %"
    return ">99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def format_change(now: float, before: float, unknown: str = "") -> str:
    """Return the relative change of a value: ``+31 %``. ``unknown`` if it was 0 before."""
    if before <= 0:
        return unknown
    percent = round(100 * (now - before) / before)
    return f"{'+' if percent > 0 else _MINUS if percent < 0 else ''}{abs(percent):,} %"


def format_bytes(count: int | None, unknown: str = UNKNOWN) -> str:
    """Return a size in powers of 1000, as disks, networks and our settings use."""
    if count is None:
        return unknown
    if count < 1000:
        return format_bytes_exactly(count)
    size = count / 1000
    for unit in ("KB", "MB", "GB"):
        if round(size, 1) < 1000:
            return f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def format_bytes_exactly(count: int) -> str:
    """Return a size in bytes with all digits."""
    return f"{count:,} byte{'' if count == 1 else 's'}"


def format_duration(milliseconds: float | None, unknown: str = UNKNOWN) -> str:
    """Return a duration with about three digits, in milliseconds, seconds, minutes or hours."""
    if milliseconds is None:
        return unknown
    if round(milliseconds) < 1000:
        return f"{round(milliseconds)} ms"
    seconds = milliseconds / 1000
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min"


def format_lasted(milliseconds: float | None, unknown: str = UNKNOWN) -> str:
    """Return a duration in its two largest units: ``8 s``, ``41 min``, ``1 h 17 min``.

    A duration above 0 is never shown as 0."""
    if milliseconds is None:
        return unknown
    seconds = round(milliseconds / 1000)
    if seconds == 0 and milliseconds > 0:
        return "<1 s"
    if seconds < 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return format_number(round(hours / 24), "day")


def format_milliseconds(milliseconds: float | None, unknown: str = UNKNOWN) -> str:
    """Return whole milliseconds with all digits."""
    return unknown if milliseconds is None else f"{milliseconds:,.0f} ms"


def format_wait(seconds: int) -> str:
    """Return a wait in whole minutes, rounded up: ``a minute``, ``3 minutes``."""
    minutes = -(-seconds // 60)
    return "a minute" if minutes == 1 else f"{minutes} minutes"
