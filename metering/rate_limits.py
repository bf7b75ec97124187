"""The rate limits of the upstream, as the headers of a response state them.

There are two kinds. Limits on requests and tokens per minute are stated with the limit, the
remaining amount and the time of the reset. Limits of a subscription ("unified") are stated with the
used share of a window of five hours or seven days, and with what covers the call. The window
``7d_oi`` ("overage included") limits the week of some models. An invalid value (negative, not
finite, text) is treated as missing."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import orjson

MAX_HEADERS, MAX_VALUE_CHARS = 40, 80
# Of a subscription, those that have columns.
WINDOWS = ("5h", "7d", "7d_oi")
RETRY_AFTER, RETRY_AFTER_MS = "retry-after", "retry-after-ms"

_NAME = re.compile(r"[a-z0-9_-]{1,60}")
_MAX_DIGITS = 12
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,20})?")
_MINUS_ZERO = re.compile(r"-0(\.0{1,20})?")
_EPOCH_S = re.compile(r"[0-9]{1,12}")
_INSTANT_CHARS = len("2026-01-31T14:03:27Z")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


# What a call was refused for: a window of a subscription is used up, a limit of a minute is reached, or the
# upstream states no limit at all, which is a short throttle.
type Limit = Literal["window", "minute", "throttle"]
REFUSED_STATUS = 429


class RateLimits(NamedTuple):
    """The limits that one response states, None for those it does not.

    ``*_reset_at`` is an instant in UTC. ``unified_*_utilization`` is the used share, 1 for the whole
    window. ``unified_claim`` names the limit that counts most, such as ``five_hour`` or ``overage``.
    ``other`` is a JSON object with the other headers of the family by name, without the common prefix.
    ``account`` does not come from a header: it is the fingerprint of the account of the subscription."""

    requests_limit: int | None = None
    requests_remaining: int | None = None
    requests_reset_at: str | None = None
    tokens_limit: int | None = None
    tokens_remaining: int | None = None
    tokens_reset_at: str | None = None
    input_tokens_limit: int | None = None
    input_tokens_remaining: int | None = None
    input_tokens_reset_at: str | None = None
    output_tokens_limit: int | None = None
    output_tokens_remaining: int | None = None
    output_tokens_reset_at: str | None = None
    unified_status: str | None = None
    unified_claim: str | None = None
    unified_reset_at: str | None = None
    unified_5h_status: str | None = None
    unified_5h_utilization: float | None = None
    unified_5h_reset_at: str | None = None
    unified_7d_status: str | None = None
    unified_7d_utilization: float | None = None
    unified_7d_reset_at: str | None = None
    unified_7d_oi_status: str | None = None
    unified_7d_oi_utilization: float | None = None
    unified_7d_oi_reset_at: str | None = None
    overage_status: str | None = None
    overage_utilization: float | None = None
    overage_in_use: bool | None = None
    overage_reset_at: str | None = None
    retry_after_s: float | None = None
    other: str | None = None
    account: str | None = None

    @property
    def is_unified(self) -> bool:
        """Return whether these are the windows of a subscription."""
        return (
            self.unified_status is not None
            or self.unified_claim is not None
            or self.unified_5h_utilization is not None
            or self.unified_7d_utilization is not None
            or self.unified_7d_oi_utilization is not None
        )

    @property
    def is_per_minute(self) -> bool:
        """Return whether a limit on requests or tokens per minute is stated."""
        return (
            self.requests_limit is not None
            or self.tokens_limit is not None
            or self.input_tokens_limit is not None
            or self.output_tokens_limit is not None
        )

    @property
    def is_overage(self) -> bool | None:
        """Return whether paid extra usage covers a call of a subscription; None for calls without one."""
        if not self.is_unified:
            return None
        return bool(self.overage_in_use) or self.unified_claim == "overage"


def collect_limits(headers: Mapping[bytes, bytes], prefix: bytes) -> dict[str, str]:
    """Return the headers that begin with ``prefix``, by name without it, and ``retry-after``.

    ``headers`` are given by lowercase name. Number and length of returned headers are bounded; if there
    are too many, those with a column come first."""
    found = {
        kept: value.decode("latin-1")
        for name, kept in _find_names(tuple(headers), prefix)
        if len(value := headers[name]) <= MAX_VALUE_CHARS
    }
    if len(found) > MAX_HEADERS:
        found = {name: found[name] for name in sorted(found, key=_is_unknown)[:MAX_HEADERS]}
    return found


@lru_cache(64)
def _find_names(names: tuple[bytes, ...], prefix: bytes) -> Sequence[tuple[bytes, str]]:
    """Return (name, name in the result) for those headers that are kept.

    The result is cached, since an upstream sends the same few lists of headers again and again."""
    retries = (RETRY_AFTER.encode(), RETRY_AFTER_MS.encode())
    kept = [(name, name.removeprefix(prefix).decode("latin-1")) for name in names]
    return [
        (name, text)
        for name, text in kept
        if name in retries
        or (name.startswith(prefix) and (text in _COLUMNS or _NAME.fullmatch(text)))
    ]


def find_limit(status_code: int | None, limits: RateLimits | None) -> Limit | None:
    """Return the kind of limit that a call was refused for, or None if it was not refused for one."""
    if status_code != REFUSED_STATUS:
        return None
    if limits is not None and limits.is_unified:
        return "window"
    return "minute" if limits is not None and limits.is_per_minute else "throttle"


def _is_unknown(name: str) -> bool:
    return name not in _COLUMNS


def parse_limits(
    headers: Mapping[str, str] | None, received_s: float | None = None
) -> RateLimits | None:
    """Return the limits in the result of ``collect_limits``, or None if it has none. Never raises.

    ``received_s`` is when the response came, in seconds since 1970, since ``retry-after`` may be a
    date."""
    if not headers:
        return None
    values: dict[str, Any] = {}
    other: dict[str, str] = {}
    for name, text in headers.items():
        column = _COLUMNS.get(name)
        if column is not None:
            value = column[1](text)
            if value is not None:
                values[column[0]] = value
        elif name != RETRY_AFTER_MS and text.isascii() and text.isprintable():
            other[name] = text
    if "retry_after_s" not in values:
        pause_s = _find_pause(headers, received_s)
        if pause_s is not None:
            values["retry_after_s"] = pause_s
    if other:
        values["other"] = orjson.dumps(other, option=orjson.OPT_SORT_KEYS).decode()
    return RateLimits(**values) if values else None


def _find_pause(headers: Mapping[str, str], received_s: float | None) -> float | None:
    """Return the seconds to wait if they are stated as milliseconds or as a date, or None."""
    if RETRY_AFTER not in headers and RETRY_AFTER_MS not in headers:  # as nearly always
        return None
    milliseconds = parse_number(headers.get(RETRY_AFTER_MS, ""))
    if milliseconds is not None:
        return milliseconds / 1000
    until_s = _parse_date(headers.get(RETRY_AFTER, ""))
    if until_s is None or received_s is None:
        return None
    return round(max(0.0, until_s - received_s), 3)


def _parse_count(text: str) -> int | None:
    is_count = len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()
    return int(text) if is_count else None


def parse_number(text: str) -> float | None:
    """Return a non-negative number, or None for any other text."""
    if _MINUS_ZERO.fullmatch(text):  # upstream rounds a share that is a little below nothing
        return 0.0
    return float(text) if _NUMBER.fullmatch(text) else None


def _parse_date(text: str) -> float | None:
    """Return the seconds since 1970 of an HTTP date, or None for any other text."""
    if not text:  # as nearly always
        return None
    try:
        instant = parsedate_to_datetime(text)
        return instant.replace(tzinfo=instant.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def parse_word(text: str) -> str | None:
    """Return ``text`` if it is a single word, otherwise None."""
    return text if _WORD.fullmatch(text) else None


def _parse_flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())


@lru_cache(maxsize=1_000)  # many calls state the same ones
def parse_instant(text: str) -> str | None:
    """Return an ISO 8601 text or seconds since 1970 as ``YYYY-MM-DDTHH:MM:SSZ``, or None for other text."""
    try:
        if _EPOCH_S.fullmatch(text):
            return _format_instant(datetime.fromtimestamp(int(text), UTC))
        instant = datetime.fromisoformat(text)
        if len(text) == _INSTANT_CHARS and text[7] + text[10] + text[19] == "-TZ":
            return text  # as nearly all are
        return None if instant.tzinfo is None else _format_instant(instant.astimezone(UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _format_instant(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


type _Column = tuple[str, Callable[[str], object]]


def _list_columns() -> dict[str, _Column]:
    """Return the column and the parse function for each header."""
    columns: dict[str, _Column] = {
        "unified-status": ("unified_status", parse_word),
        "unified-representative-claim": ("unified_claim", parse_word),
        "unified-reset": ("unified_reset_at", parse_instant),
        "unified-overage-status": ("overage_status", parse_word),
        "unified-overage-utilization": ("overage_utilization", parse_number),
        "unified-overage-in-use": ("overage_in_use", _parse_flag),
        "unified-overage-reset": ("overage_reset_at", parse_instant),
        RETRY_AFTER: ("retry_after_s", parse_number),
    }
    for kind in ("requests", "tokens", "input-tokens", "output-tokens"):
        name = kind.replace("-", "_")
        columns[f"{kind}-limit"] = (f"{name}_limit", _parse_count)
        columns[f"{kind}-remaining"] = (f"{name}_remaining", _parse_count)
        columns[f"{kind}-reset"] = (f"{name}_reset_at", parse_instant)
    for window in WINDOWS:
        columns[f"unified-{window}-status"] = (f"unified_{window}_status", parse_word)
        columns[f"unified-{window}-utilization"] = (f"unified_{window}_utilization", parse_number)
        columns[f"unified-{window}-reset"] = (f"unified_{window}_reset_at", parse_instant)
    # As arguments, names that are of the class themselves are found at once, others one by one.
    return {header: (sys.intern(name), parse) for header, (name, parse) in columns.items()}


_COLUMNS = _list_columns()
