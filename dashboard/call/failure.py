"""The first lines of the page of a call that failed: what happened, what to do, and when again."""

from dataclasses import dataclass
from datetime import timedelta

from dashboard.call.excerpts import Excerpt
from dashboard.call.response import MessageResponse
from metering.entry import Outcome, UsageLogEntry
from metering.formats import format_duration
from runtime import clock

MAX_CHARS = 1_000  # of a message that stands there whole
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
_SERVER_FAULT = "The fault is the upstream's. The same request may succeed later."


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The beginning of the page. ``kind`` is the type of the upstream's error; its ``message`` is None
    where it is too long to stand here. ``again`` is empty where the upstream does not say when to try
    again."""

    what: str = ""
    kind: str = ""
    message: Excerpt | None = None
    remedy: str
    again: str


def describe_failure(entry: UsageLogEntry, response: MessageResponse | None) -> Failure | None:
    """Return what to say of a call that failed, None for any other."""
    error = None if response is None else response.error
    if entry.outcome != "upstream_error" and entry.outcome not in _OUTCOMES and error is None:
        return None
    what, remedy = _OUTCOMES.get(entry.outcome, ("", _find_remedy(entry)))
    if error is None:
        status = "an error" if entry.status_code is None else f"status {entry.status_code}"
        return Failure(
            what=what or f"The upstream responded with {status}.",
            remedy=remedy,
            again=_find_again(entry),
        )
    kind, message = error
    is_short = not message.left_out and len(message.text) <= MAX_CHARS
    return Failure(
        kind=kind,
        message=message if is_short else None,
        remedy=remedy,
        again=_find_again(entry),
    )


def _find_remedy(entry: UsageLogEntry) -> str:
    """Return what to do about an error of the upstream; an error within a stream has its type alone."""
    status = entry.status_code or 0
    if status < 400:
        is_overload = entry.error_type == "overloaded_error"
        return _REMEDIES[529] if is_overload else _SERVER_FAULT
    if status in _REMEDIES:
        return _REMEDIES[status]
    return _SERVER_FAULT if status >= 500 else _REMEDIES[400]


def _find_again(entry: UsageLogEntry) -> str:
    """Return when the upstream wants to be asked again, by its ``retry-after``."""
    wait_s = None if entry.rate_limits is None else entry.rate_limits.retry_after_s
    if wait_s is None or not 0 < wait_s < _LONGEST_WAIT_S:
        return ""
    ended = clock.parse_instant(entry.created_at) + timedelta(milliseconds=entry.duration_ms or 0)
    at = clock.format_stored(clock.format_ms(ended + timedelta(seconds=wait_s)))
    wait = format_duration(wait_s * 1000)
    return f"The upstream wants a pause of {wait} (retry-after): try again from {at} on."
