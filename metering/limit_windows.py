"""The windows of a subscription: how much of each is left, and when it is used up at the present pace.

The upstream states with each response which share of a window is used, for all devices of an
account. That is exact when it is read and later at most too low, because calls of other devices are
not seen here. So the rest is "at most" so much, and if a window has been reset since the last
reading, its share is unknown. All instants are in UTC. A share is 1 for the whole window, and may
exceed it."""

import hashlib
import hmac
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from metering.rate_limits import WINDOWS, RateLimits, parse_instant, parse_number, parse_word
from wire.json_reading import as_text, parse_object

# Below such a share, or such a rise of it, the two decimals of the upstream say nothing about a pace.
LEAST_SHARE = 0.03
LEAST_TIME = timedelta(minutes=10)
OVERAGE = "overage"
MAX_WINDOWS = 12  # that one response may state
FINGERPRINT_CHARS = 32

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1)}
_LENGTH = re.compile(r"([1-9][0-9]{0,2})([hd])(?:_.*)?", re.ASCII)
_OTHER_SHARE = re.compile(r"unified-(.+)-utilization")
_DAY = timedelta(days=1)


class Stated(NamedTuple):
    """The share of one window that one response states; ``resets_at`` is as in ``RateLimits``."""

    window: str
    used: float
    resets_at: str | None
    status: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A share, with the instants at which it was first and last stated."""

    used: float
    status: str | None
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The readings of a window of an account up to its next reset: at least one, in any order.

    ``used_before`` is the last share that was stated of the window before, None if there was none."""

    account: str
    window: str
    resets_at: datetime | None
    observations: Sequence[Observation]
    used_before: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """The state of a window at an instant. ``used`` is the share that was stated at ``read_at``.

    ``left`` is the share that is left at most, None if unknown since a reset. ``used_up_at`` is None if
    the window lasts until the reset, or if too little is known. ``elapsed`` is the share of its time
    that has passed, None if its length or reset is unknown."""

    account: str
    window: str
    used: float
    left: float | None
    resets_at: datetime | None
    read_at: datetime
    used_up_at: datetime | None
    status: str | None
    elapsed: float | None


def fingerprint_account(account_id: str, organization_id: str) -> str:
    """Return a fingerprint of the account that a client names.

    It is keyed by our organisation, so that two organisations cannot find out that they have the same
    account. The account id is random, so it cannot be found by trying."""
    keyed = hmac.new(organization_id.encode(), account_id.encode("utf-8", "replace"), "sha256")
    return keyed.hexdigest()[:FINGERPRINT_CHARS]


def name_account(account_hmac: str, upstream_organization_id: str | None) -> str:
    """Return the identifier of an account within an organisation of the upstream.

    One account may belong to several organisations, each with limits of its own, and members share an
    organisation."""
    text = f"{upstream_organization_id or ''}\0{account_hmac}".encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:FINGERPRINT_CHARS]


def find_length(window: str) -> timedelta | None:
    """Return the length of a window by its name, such as ``5h`` or ``7d_oi``, or None."""
    found = _LENGTH.fullmatch(window)
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def list_stated(limits: RateLimits) -> list[Stated]:
    """Return the windows whose used share a response states, including those without columns."""
    found = [
        Stated(
            window,
            used,
            getattr(limits, f"unified_{window}_reset_at"),
            getattr(limits, f"unified_{window}_status"),
        )
        for window in WINDOWS
        if (used := getattr(limits, f"unified_{window}_utilization")) is not None
    ]
    if limits.overage_utilization is not None:
        found.append(
            Stated(
                OVERAGE, limits.overage_utilization, limits.overage_reset_at, limits.overage_status
            )
        )
    if limits.other is not None and "-utilization" in limits.other:
        found += _list_others(limits.other)
    return found[:MAX_WINDOWS]


def _list_others(other: str) -> Iterator[Stated]:
    fields = parse_object(other.encode()) or {}
    for name, text in fields.items():
        window = _OTHER_SHARE.fullmatch(name)
        used = None if window is None else parse_number(as_text(text))
        if window is not None and used is not None:
            start = f"unified-{window[1]}"
            yield Stated(
                window[1],
                used,
                parse_instant(as_text(fields.get(f"{start}-reset"))),
                parse_word(as_text(fields.get(f"{start}-status"))),
            )


def find_state(observed: Observed, now: datetime) -> WindowState:
    """Return the state of a window at the instant ``now``."""
    newest = max(observed.observations, key=lambda each: each.last_at)
    is_known = not _is_reset(observed, now) and not _is_from_before(observed, newest)
    return WindowState(
        account=observed.account,
        window=observed.window,
        used=newest.used,
        left=round(max(0.0, 1 - newest.used), 6) if is_known else None,
        resets_at=observed.resets_at,
        read_at=newest.last_at,
        used_up_at=_find_end(observed, newest) if is_known else None,
        status=newest.status,
        elapsed=_find_elapsed(observed, now),
    )


def _is_reset(observed: Observed, now: datetime) -> bool:
    return observed.resets_at is not None and now >= observed.resets_at


def _is_from_before(observed: Observed, newest: Observation) -> bool:
    """Return whether the only reading of a window may be the share of the window before.

    The first response after a reset may still state it."""
    is_only_one = len(observed.observations) == 1 and newest.first_at == newest.last_at
    return is_only_one and newest.used >= LEAST_SHARE and newest.used == observed.used_before


def _find_end(observed: Observed, newest: Observation) -> datetime | None:
    """Return when the window is used up at the recent pace, or None if it lasts or that is unknown."""
    resets_at = observed.resets_at
    if newest.used < LEAST_SHARE or resets_at is None:
        return None
    if newest.used >= 1:
        return newest.last_at
    used_per_s = _find_pace(observed, newest)
    if used_per_s is None:
        return None
    rest_s = (1 - newest.used) / used_per_s
    if rest_s >= (resets_at - newest.last_at).total_seconds():
        return None
    return newest.last_at + timedelta(seconds=rest_s)


def _find_pace(observed: Observed, newest: Observation) -> float | None:
    """Return the share of the limit used per second, or None without length or reset.

    The pace is that of the last hour (day for long windows), or since the window began if that is too
    little."""
    length = find_length(observed.window)
    if length is None or observed.resets_at is None:
        return None
    since = newest.last_at - (_DAY if length >= _DAY else timedelta(hours=1))
    # A share cannot fall within a window: a larger one is still that of the window before.
    earliest = min(
        (
            (max(each.first_at, since), each.used)
            for each in observed.observations
            if each.last_at >= since and each.used <= newest.used
        ),
    )
    rise, time = newest.used - earliest[1], newest.last_at - earliest[0]
    if round(rise, 6) >= LEAST_SHARE and time >= LEAST_TIME:
        return rise / time.total_seconds()
    gone_s = (newest.last_at - (observed.resets_at - length)).total_seconds()
    return newest.used / gone_s if gone_s > 0 else None


def _find_elapsed(observed: Observed, now: datetime) -> float | None:
    length = find_length(observed.window)
    if length is None or observed.resets_at is None:
        return None
    return min(1.0, max(0.0, 1 - (observed.resets_at - now) / length))
