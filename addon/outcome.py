"""The outcome of a failed exchange for its entry, and the error response for its client."""

from dataclasses import dataclass

from addon import errors
from addon.core import messages, response_heads
from addon.errors import Refusal
from addon.exchange import Phase
from store.spool.format import TransportOutcome


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a failed exchange, and the refusal for a client that has got no response head yet."""

    outcome: TransportOutcome
    refusal: Refusal

    @property
    def error_type(self) -> str | None:
        """Return the error type for the entry, None if the client left."""
        return None if self.outcome == "client_disconnected" else self.refusal.code


def explain_failure(
    *, timed_out: Phase | None, client_left: bool, was_sent: bool, for_web: bool, message: str
) -> Failure:
    """Return the outcome of a failed exchange, with the refusal for its client.

    ``was_sent``: its request was sent on an upstream connection. ``message`` is mitmproxy's error
    message."""
    if for_web:
        return Failure("upstream_unreachable", errors.WEB_UNAVAILABLE)
    if timed_out is not None:
        return Failure("upstream_timeout", errors.upstream_timeout(timed_out.value))
    if client_left:
        return Failure("client_disconnected", errors.upstream_interrupted("its client left"))
    if not was_sent:
        return Failure("upstream_unreachable", errors.upstream_unreachable(message))
    reason = response_heads.find_reason(message)
    if reason is not None:
        return Failure("upstream_interrupted", errors.upstream_invalid(reason))
    reason = messages.explain_interruption(message)
    return Failure("upstream_interrupted", errors.upstream_interrupted(reason))
