"""Sizes and exact amounts, as one call's own page shows them; rounded figures are in ``formats``."""

from decimal import Decimal

from dashboard.formats import UNKNOWN


def format_bytes(count: int | None) -> str:
    if count is None:
        return UNKNOWN
    if count < 1000:
        return f"{count} byte{'' if count == 1 else 's'}"
    size = count / 1000
    for unit in ("KB", "MB"):
        if round(size, 1) < 1000:
            return f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def format_dollars(amount: Decimal | None) -> str:
    """Every digit, so that a bill adds up to its total."""
    if amount is None:
        return UNKNOWN
    whole, _, fraction = f"{amount:,f}".partition(".")
    return f"${whole}.{fraction.rstrip('0'):0<2}"
