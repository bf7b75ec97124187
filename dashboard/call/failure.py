"""The first lines of the page of a failed call: what happened, what to do, and when to try again."""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dashboard.call.excerpts import EMPTY, Excerpt
from dashboard.formats import outcome_label
from metering.entry import Outcome, UsageLogEntry
from metering.formats import format_cents, format_lasted
from runtime import clock

MAX_CHARS = 1_000  # of a message that stands there whole
_HEADING_CHARS = 90  # of one that is part of the heading
_FIRST_ERROR = 400  # of the status codes
_LONGEST_WAIT_S = 30 * 24 * 3_600  # what a header says beyond it is no time to wait for
_OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "upstream_unreachable": (
        "The upstream could not be connected to, so it has seen nothing of this call.",
        "Look at the network and at TAXIMETER_UPSTREAM_URL: the command “taximeter doctor” checks both.",
    ),
    "upstream_timeout": (
        "The upstream took longer than TAXIMETER_UPSTREAM_TIMEOUT allows.",
        "Stream long responses, or allow more time. The upstream may have done the work, and bill it.",
    ),
    "upstream_interrupted": (
        "The upstream ended the connection before the response was whole.",
        "The same request may succeed. What was delivered may be billed.",
    ),
    "proxy_restarted": (
        "The proxy was restarted while this call was in progress.",
        "The same request may succeed. What was delivered may be billed.",
    ),
}
_REMEDIES = {
    400: "The same request will fail again: correct what the message names.",
    401: "The upstream does not accept the credential: look at the key or token that the client sends.",
    403: "The credential is not allowed to do this: use another one, or ask its owner.",
    404: "The upstream does not know the model or the path: look at their names.",
    413: "The request is too large: send less of the conversation, or smaller files.",
    429: "A limit of the credential or of its organization is reached: wait, or call less often.",
    529: "The upstream is overloaded. The same request may succeed later.",
}
_LIMITS = {
    "window": "A window of the subscription is used up: wait until it resets, or use another credential.",
    "throttle": "It states no limit: this is a short throttle, and says nothing of what is left of a"
    " subscription. Wait a little, and send fewer requests at once.",
}
_SERVER_FAULT = "The fault is the upstream's. The same request may succeed later."


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The first lines of the page of a failed call. ``kind`` is the type of the upstream's error;
    ``message`` is None if there is none or it is too long for these lines. ``again`` is the pause that
    upstream requests and the time when it ends, None if upstream states none. ``billed`` says what the
    call costs."""

    heading: str
    billed: str
    what: str = ""
    kind: str = ""
    message: Excerpt | None = None
    remedy: str
    again: tuple[str, datetime] | None


def describe_failure(entry: UsageLogEntry, error: tuple[str, Excerpt] | None) -> Failure | None:
    """Return the first lines of the page of a failed call, None if the call did not fail.

    ``error`` is the type and text of the upstream's error, None if the response has none."""
    if entry.outcome != "upstream_error" and entry.outcome not in _OUTCOMES and error is None:
        return None
    what, remedy = _OUTCOMES.get(entry.outcome, ("", _find_remedy(entry)))
    kind, message = error or (entry.error_type or "", EMPTY)
    status = "an error" if entry.status_code is None else f"status {entry.status_code}"
    is_short = not message.left_out and len(message.text) <= MAX_CHARS
    return Failure(
        heading=_make_heading(entry, kind, message),
        billed=_describe_bill(entry),
        what="" if error else what or f"The upstream responded with {status}.",
        kind=kind if error else "",
        message=message if error and is_short else None,
        remedy=remedy,
        again=_find_again(entry),
    )


def describe_cut(entry: UsageLogEntry) -> str:
    """Return sentences about a call whose client closed the connection, "" for any other call."""
    if entry.outcome != "client_disconnected":
        return ""
    return (
        "It closed the connection before the response was complete, as when somebody interrupts an agent."
        f" What was delivered until then is below. {_describe_bill(entry)}"
    )


def describe_shortly(entry: UsageLogEntry) -> str:
    """Return why a call failed, for one line of a list, as in ``529 overloaded_error``."""
    kind = entry.error_type or outcome_label(entry.outcome)
    is_error = entry.status_code is not None and entry.status_code >= _FIRST_ERROR
    return f"{entry.status_code} {kind}" if is_error else kind


def _make_heading(entry: UsageLogEntry, kind: str, message: Excerpt) -> str:
    """Return status and error type, with the wait before the next try, or else a short message."""
    words = describe_shortly(entry if entry.error_type else replace(entry, error_type=kind or None))
    wait_s = _find_wait(entry)
    if wait_s is not None:
        return f"{words}: try again in {_format_wait(wait_s)}"
    is_short = message.text and not message.left_out and len(message.text) <= _HEADING_CHARS
    return f"{words}: {message.text}" if is_short and "\n" not in message.text else words


def _describe_bill(entry: UsageLogEntry) -> str:
    if entry.cost_cents is None:
        return "Upstream may have billed what it did: the response does not say."
    if entry.cost_cents:
        return f"Billed: {format_cents(entry.cost_cents)}."
    return "Not billed."


def _find_remedy(entry: UsageLogEntry) -> str:
    """Return what to do about an error of upstream. An error within a stream is judged by its type alone."""
    status = entry.status_code or 0
    if status < 400:
        is_overload = entry.error_type == "overloaded_error"
        return _REMEDIES[529] if is_overload else _SERVER_FAULT
    if entry.limited_by in _LIMITS:
        return _LIMITS[entry.limited_by]
    if status in _REMEDIES:
        return _REMEDIES[status]
    return _SERVER_FAULT if status >= 500 else _REMEDIES[400]


def _find_again(entry: UsageLogEntry) -> tuple[str, datetime] | None:
    """Return the pause that ``retry-after`` requests and the time when it ends, None if there is none."""
    wait_s = _find_wait(entry)
    if wait_s is None:
        return None
    ended = clock.parse_instant(entry.created_at) + timedelta(milliseconds=entry.duration_ms or 0)
    return _format_wait(wait_s), ended + timedelta(seconds=wait_s)


def _format_wait(wait_s: float) -> str:
    return format_lasted(1000 * math.ceil(wait_s))


def _find_wait(entry: UsageLogEntry) -> float | None:
    """Return the seconds that upstream requests to wait, None if it states none or an absurd number."""
    wait_s = None if entry.rate_limits is None else entry.rate_limits.retry_after_s
    return wait_s if wait_s is not None and 0 < wait_s < _LONGEST_WAIT_S else None
