"""Rates as a short row: input, output, cache reads, writes for 5 minutes and for 1 hour."""

from decimal import Decimal

from metering.rates import Rates


def amounts(rates: Rates | None) -> list[Decimal | None] | None:
    if rates is None:
        return None
    names = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    return [rates.of(name) for name in names]


def decimals(text: str) -> list[Decimal]:
    return [Decimal(word) for word in text.split()]
