"""The shares of a budget at which its use is reported: its own ones, and always the whole budget."""

import re
from collections.abc import Iterable, Sequence

DEFAULT_SHARES = (0.8,)
MAX_SHARES = 10
DECIMALS = 4
WHOLE_PERCENT = 100
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def check_shares(shares: Iterable[float]) -> tuple[float, ...]:
    """Return shares sorted and unique. Raises ValueError if they are too many or not above 0 and up to 1."""
    found = sorted({round(each, DECIMALS) for each in shares})
    if len(found) > MAX_SHARES:
        raise ValueError(f"a budget warns at {MAX_SHARES} shares at most")
    if not all(0 < each <= 1 for each in found):  # also not a number
        raise ValueError("a share to warn at is above 0 and at most 1, such as 0.5 for half of it")
    return tuple(found)


def pack_shares(shares: Sequence[float]) -> str:
    """Return shares in stored form."""
    return ",".join(f"{each:.{DECIMALS}f}".rstrip("0").rstrip(".") for each in shares)


def unpack_shares(stored: str | None) -> tuple[float, ...]:
    """Return stored shares; for None, the default shares."""
    if stored is None:
        return DEFAULT_SHARES
    return tuple(float(each) for each in _NUMBER.findall(stored))


def find_percent(shares: Sequence[float], limit_usd: float, spent_usd: float) -> float | None:
    """Return the highest percentage to report that a budget has reached, or None below the first."""
    reached = [each for each in (*shares, 1.0) if spent_usd >= round(limit_usd * each, 8)]
    return round(100 * max(reached), DECIMALS - 2) if reached else None


def format_percent(percent: float) -> str:
    """Return a percentage without superfluous digits: ``80%``, ``92.5%``."""
    return f"{percent:g}%"
