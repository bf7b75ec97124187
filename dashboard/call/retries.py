"""The retries of a failed call: how often the client sent it again, and the result."""

from dataclasses import dataclass

from metering.entry import NO_ERROR, UsageLogEntry
from runtime import clock
from store.traces.calls.call_reader import Call, CallReader

MAX_RETRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """The retries of a failed call. ``last_id`` is the row id of the last retry, which began ``wait_ms``
    after the end of the failed call; ``has_succeeded`` is about that retry."""

    count: int
    last_id: int
    wait_ms: float
    has_succeeded: bool


def find_retries(call: Call, reader: CallReader) -> Retries | None:
    """Return the retries of a call, None if it was not sent again. Raises sqlite3.Error."""
    last, count = call, 0
    while count < MAX_RETRIES and last.next_id is not None:
        following = reader.find_call(last.next_id)
        if following is None or not is_retry(call.entry, following.entry):
            break
        last, count = following, count + 1
        if last.entry.outcome in NO_ERROR:
            break
    if not count:
        return None
    return Retries(
        count=count,
        last_id=last.id,
        wait_ms=_measure_ms(call.entry, last.entry),
        has_succeeded=last.entry.outcome in NO_ERROR,
    )


def is_retry(entry: UsageLogEntry, later: UsageLogEntry) -> bool:
    """Return whether ``later`` has the same title, model and number of messages as ``entry``."""
    return (later.message_count, later.title_text, later.request_model) == (
        entry.message_count,
        entry.title_text,
        entry.request_model,
    )


def _measure_ms(failed: UsageLogEntry, later: UsageLogEntry) -> float:
    between = clock.parse_instant(later.created_at) - clock.parse_instant(failed.created_at)
    return max(between.total_seconds() * 1000 - (failed.duration_ms or 0.0), 0.0)
