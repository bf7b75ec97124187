"""The messages that a call added to its conversation: those that the call before did not have.

Clients move cache markers, and turn a text into a block to hold one, so both differences are ignored
when messages are compared. If the body of the call before is gone, the number of its messages is used
instead.
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
    """The number (from 1) of the first new message of a call. ``previous_id`` is the call before, None if
    the call is the first of a conversation; ``changed`` is the number of the first message that differs
    from the one at its place in the call before. ``is_counted``: only numbers of messages were compared,
    since the body of the call before is gone."""

    first: int = 1
    previous_id: int | None = None
    changed: int | None = None
    is_counted: bool = False


def find_latest(call: Call, messages: Sequence[Message], reader: CallReader) -> Latest:
    """Return the first message that is new in a call. Raises sqlite3.Error.

    The call before is its recorded predecessor. If the recorder has not determined one yet, up to
    ``MAX_CANDIDATES`` earlier calls are tried whose messages ``messages`` may begin with."""
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
    """Return which messages are new compared with the call before, None if they do not continue it.

    They do not if less than half of ``before`` is the beginning of ``messages``. ``is_known``: they do
    in any case."""
    same = count_same(before, messages)
    if not before or (2 * same < len(before) and not is_known):
        return None
    if same == len(before):
        return Latest(first=same + 1, previous_id=previous_id)
    is_longer = len(messages) > len(before)
    first = len(before) + 1 if is_longer else same + 1
    return Latest(first=first, previous_id=previous_id, changed=same + 1 if is_longer else None)


def count_same(before: Sequence[Message], now: Sequence[Message]) -> int:
    """Return the number of equal messages at the beginning of both, ignoring cache markers."""
    same = 0
    for one, other in zip(before, now, strict=False):
        if one != other and one.normalize() != other.normalize():
            break
        same += 1
    return same


def _list_candidates(call: Call, reader: CallReader) -> Iterator[Call]:
    """Yield earlier calls of the session and agent, the latest first, without failed ones. There are
    ``MAX_CANDIDATES`` at most."""
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
