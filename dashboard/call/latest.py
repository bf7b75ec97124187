"""The messages that a call added to its conversation: those that the call before did not have.

Clients move cache markers, and write a text as a block when one moves there, so both are left out when
messages are compared. Where the body of the call before is gone, the number of its messages is known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dashboard.call.conversation import parse_request
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.call_reader import Call, CallReader
from store.traces.calls.threads import read_whole_request
from wire.request import Message

MAX_COMPARED_BYTES = 4 << 20
MAX_CANDIDATES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """From which message on a call is new. ``previous_id`` is the call before, None for the first of a
    conversation; ``changed`` is the number of the first message that both have and that differs.
    ``is_counted``: messages were counted, for want of the body of the call before."""

    first: int = 1
    previous_id: int | None = None
    changed: int | None = None
    is_counted: bool = False


def find_latest(call: Call, messages: Sequence[Message], reader: CallReader) -> Latest:
    """Return from which message on a call is new. Raises sqlite3.Error.

    The call before is the one that the recorder found. Of calls that it has not looked at, one that was
    sent before is taken if its messages are the beginning of these."""
    known = None if call.predecessor_id is None else reader.find_call(call.predecessor_id)
    if known is not None:
        before = _read_messages(known, reader)
        found = compare(known.id, before, messages, is_known=True) if before else None
        return found or _count(known, messages) or Latest(previous_id=known.id)
    for previous in _list_candidates(call, reader):
        before = _read_messages(previous, reader)
        if before is None:
            if (found := _count(previous, messages)) is not None:
                return found
        elif (found := compare(previous.id, before, messages)) is not None:
            return found
    return Latest()


def compare(
    previous_id: int,
    before: Sequence[Message],
    messages: Sequence[Message],
    *,
    is_known: bool = False,
) -> Latest | None:
    """Return what is new against the messages of another call, None where they were not continued.

    They were not where less than half of them are the beginning. ``is_known``: they were, and edited
    early if both have little in common."""
    same = count_same(before, messages)
    if not before or (2 * same < len(before) and not is_known):
        return None
    if same == len(before):
        return Latest(first=same + 1, previous_id=previous_id)
    is_longer = len(messages) > len(before)
    first = len(before) + 1 if is_longer else same + 1
    return Latest(first=first, previous_id=previous_id, changed=same + 1 if is_longer else None)


def count_same(before: Sequence[Message], now: Sequence[Message]) -> int:
    """Return how many messages both begin with."""
    same = 0
    for one, other in zip(before, now, strict=False):
        if one != other and one.normalize() != other.normalize():
            break
        same += 1
    return same


def _list_candidates(call: Call, reader: CallReader) -> Iterator[Call]:
    """Yield the calls before that were answered, the latest first, of the same session and agent."""
    earlier = call.previous_id
    for _ in range(MAX_CANDIDATES):
        previous = None if earlier is None else reader.find_call(earlier)
        if previous is None:
            return
        if previous.entry.tokens.prompt and previous.entry.request_class != "auxiliary":
            yield previous
        earlier = previous.previous_id


def _read_messages(call: Call, reader: CallReader) -> list[Message] | None:
    size = call.request
    if size is None or not size.is_text or size.length > MAX_COMPARED_BYTES:
        return None
    try:
        whole = read_whole_request(reader.connection, call.id)
    except MissingPieceError:  # retention removes it at this moment
        return None
    request = None if whole is None or whole.gap is not None else parse_request(whole.body)
    return None if request is None else request.messages


def _count(previous: Call, messages: Sequence[Message]) -> Latest | None:
    count = previous.entry.message_count
    if count is None or not 0 < count < len(messages):
        return None
    return Latest(first=count + 1, previous_id=previous.id, is_counted=True)
