"""Finding the call whose prompt a call continues.

That is not always the one before it: side calls, parallel calls and other conversations share a session.
A call continues another one of its session and agent when

- all message units of that one are the beginning of its own (it grew, or was sent again), or
- at least half of them, with the first or the last one, are in it in the same order, and it either has
  more messages or shares what the model answered after the place where both differ (an early text was
  edited).

The call that a request names is taken before all others, and for a request that continues a message thread
there is no other: it sends only what is new.

After a compaction no unit is left of the history: the call before is the one whose response was the block
that stands for it.

Having the same tools and system prompt is not enough: that is another conversation. Without bodies
only the numbers of messages and tools are left to go by. The one that shares most units is taken, of
those the one with the same tools and system prompt, of those the latest.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence, Set
from functools import cached_property
from typing import Literal, NamedTuple

from conversations.summaries import CallSummary, PromptSummary, view_digests
from conversations.unit_runs import DIGEST_BYTES
from conversations.units import Prompt
from wire.conversation_memory import shared_length

RESOLUTION_S = 0.001  # of the time at which a call began
MAX_IDLE_S = 4 * 3600.0  # between two calls of a program that sends no session

type FoundBy = Literal["upstream", "chain", "overlap", "compaction", "counts"]


class Predecessor(NamedTuple):
    """The call before, and how it was found.

    ``found_by`` says whether the request named it, by equal units from the beginning, by many equal
    units, by the compaction block that replaces the history, or only by counts."""

    call: CallSummary
    found_by: FoundBy


class _Rank(NamedTuple):
    shared: int
    shared_front: int
    began_at: float


def find_predecessor(
    call: CallSummary, prompt: Prompt | None, candidates: Iterable[CallSummary]
) -> Predecessor | None:
    """Return the call that this one continues, or None if it begins a conversation.

    ``prompt`` is the prompt of ``call``; a few latest calls of the session are enough as candidates."""
    named = find_named(call, candidates)
    if (
        named is not None or call.continues_thread
    ):  # of which the units are no beginning of a prompt
        return None if named is None else Predecessor(named, "upstream")
    if prompt is None or call.prompt is None:
        return _find_by_counts(call, (each for each in candidates if may_precede(each, call)))
    if (found := _find_by_units(call, call.prompt, prompt, candidates)) is not None:
        return found
    if (found := _find_by_compaction(call, candidates)) is not None:
        return found
    return _find_by_counts(
        call, (each for each in candidates if each.prompt is None and may_precede(each, call))
    )


def find_named(call: CallSummary, candidates: Iterable[CallSummary]) -> CallSummary | None:
    """Return the call with the message that a request names, or None.

    Gateways reuse message ids: calls with the same credential are preferred, then the same session and
    agent, then the latest."""
    if call.previous_message_id is None:
        return None
    return max(
        (
            each
            for each in candidates
            if each.message_id == call.previous_message_id
            and _is_there(each, call)
            and (call.continues_thread or is_same_group(each, call))
        ),
        key=lambda each: (
            each.credential_hmac == call.credential_hmac,
            (each.session_id, each.agent_id) == (call.session_id, call.agent_id),
            each.began_at,
        ),
        default=None,
    )


def _find_by_units(
    call: CallSummary, now: PromptSummary, prompt: Prompt, candidates: Iterable[CallSummary]
) -> Predecessor | None:
    """Return the call that shares most units, or None.

    The longest prompts are compared first, because a shorter one shares at most all of its units."""
    units = _Units(now)
    ordered = sorted(
        [
            (len(before.message_digests), each.began_at, place, each, before)
            for place, (each, before) in enumerate(units.find_sharing(candidates))
        ],
        reverse=True,
    )
    best: _Rank | None = None
    found: Predecessor | None = None
    for length, _, _, each, before in ordered:
        if best is not None and length < best.shared * DIGEST_BYTES:
            break
        if not may_precede(each, call):
            continue
        match = _match(each, before, now, units, prompt)
        if match is not None and (best is None or match[0] > best):
            best, found = match
    return found


def _find_by_compaction(call: CallSummary, candidates: Iterable[CallSummary]) -> Predecessor | None:
    """Return the call whose response was the compaction block with which this prompt begins, or None."""
    if call.prompt is None or call.prompt.continued is None:  # as nearly all
        return None
    found = [each for each in candidates if is_compacted_by(call, each) and may_precede(each, call)]
    latest = max(found, key=lambda each: each.began_at, default=None)
    return None if latest is None else Predecessor(latest, "compaction")


def is_compacted_by(call: CallSummary, earlier: CallSummary) -> bool:
    """Return whether a call has, in place of its history, the compaction block from an earlier response."""
    return (
        earlier.compaction is not None
        and call.prompt is not None
        and call.prompt.continued == earlier.compaction
    )


def may_precede(earlier: CallSummary, call: CallSummary) -> bool:
    """Return whether ``earlier`` may be the call that ``call`` continues: same conversation, and in time."""
    return _is_there(earlier, call) and is_same_group(earlier, call)


def _is_there(earlier: CallSummary, call: CallSummary) -> bool:
    """Return whether the cache entries of the earlier call existed when ``call`` began."""
    return (
        earlier.entry_id != call.entry_id
        and earlier.answered_at is not None
        and earlier.answered_at <= call.began_at + RESOLUTION_S
        and (earlier.began_at, earlier.entry_id) < (call.began_at, call.entry_id)
        and earlier.tokens.total > 0
        and not earlier.is_side_call
    )


def is_same_group(one: CallSummary, other: CallSummary) -> bool:
    """Return whether two calls may be of one conversation.

    They may if session and agent are the same or, without sessions, if the credential is the same and
    the calls are near in time."""
    if one.session_id is not None or other.session_id is not None:
        return (one.session_id, one.agent_id) == (other.session_id, other.agent_id)
    is_near = abs(one.began_at - other.began_at) <= MAX_IDLE_S
    return is_near and one.credential_hmac == other.credential_hmac


def may_be_continued_by(earlier: CallSummary, call: CallSummary) -> bool:
    """Return whether ``call`` may turn out to continue an earlier call, as far as summaries tell."""
    if call.previous_message_id is not None and call.previous_message_id == earlier.message_id:
        return True
    if call.continues_thread:
        return False
    if is_compacted_by(call, earlier):
        return True
    if earlier.prompt is None or call.prompt is None:
        return call.session_id is not None
    units, wanted = _Units(call.prompt), earlier.prompt.message_digests
    if not units.find_sharing([earlier]):
        return False
    return 2 * _count_known(_split(wanted), units.known) >= len(wanted) // DIGEST_BYTES


class _Units:
    """The message units of a prompt, split and indexed only when needed."""

    def __init__(self, prompt: PromptSummary) -> None:
        self.digests = prompt.message_digests

    @cached_property
    def all(self) -> list[int]:
        return _split(self.digests)

    @cached_property
    def known(self) -> frozenset[int]:
        return frozenset(self.all)

    def find_sharing(self, calls: Iterable[CallSummary]) -> list[tuple[CallSummary, PromptSummary]]:
        """Return the calls that probably share units with this prompt, with their prompts.

        They begin with the same message unit, or their last message unit is in this prompt. One of both
        holds if a conversation was continued. This check takes far less time than counting, and programs
        that send no session id have many calls, of which nearly none share anything."""
        if not self.all:
            return []
        first, known = self.all[0], self.known
        return [
            (each, each.prompt)
            for each in calls
            if (each.first_digest == first or each.last_digest in known) and each.prompt is not None
        ]


def _match(
    earlier: CallSummary, before: PromptSummary, now: PromptSummary, units: _Units, prompt: Prompt
) -> tuple[_Rank, Predecessor] | None:
    total = len(before.message_digests) // DIGEST_BYTES
    if now.message_digests.startswith(before.message_digests):
        return _rank(total, earlier, before, now), Predecessor(earlier, "chain")
    wanted = _split(before.message_digests)
    # To count takes far less time than to match.
    if 2 * _count_known(wanted, units.known) < total:
        return None
    places = match_in_order(wanted, units.all)
    if 2 * len(places) < total:
        return None
    if not _is_continued(before, now, places, prompt):
        return None
    return _rank(len(places), earlier, before, now), Predecessor(earlier, "overlap")


def _rank(shared: int, earlier: CallSummary, before: PromptSummary, now: PromptSummary) -> _Rank:
    front = _count_equal(before.front_digests, now.front_digests)
    return _Rank(shared, front, earlier.began_at)


def _is_continued(
    before: PromptSummary, now: PromptSummary, places: Sequence[int], prompt: Prompt
) -> bool:
    """Return whether a conversation was continued, and did not go back or only look alike."""
    if now.messages > before.messages:
        return True
    alike = _count_equal(before.message_digests, now.message_digests)
    roles = (prompt.units[now.front + place].role for place in places if place >= alike)
    return "assistant" in roles


def _count_equal(before: bytes, now: bytes) -> int:
    """Return how many units at the beginning are equal."""
    if before == now:
        return len(now) // DIGEST_BYTES
    return shared_length(before, now) // DIGEST_BYTES


def _count_known(wanted: Sequence[int], known: Set[int]) -> int:
    return sum(map(known.__contains__, wanted))


def _split(digests: bytes) -> list[int]:
    return view_digests(digests).tolist()


def match_in_order[Value: Hashable](before: Sequence[Value], now: Sequence[Value]) -> list[int]:
    """Return the places in ``now`` of the longest list of values of ``before`` in the same order.

    The first occurrence of a value is paired with the first one, the second with the second, and so on;
    of the pairs the longest ascending run is returned."""
    places: defaultdict[Value, deque[int]] = defaultdict(deque)
    for place, value in enumerate(now):
        places[value].append(place)
    ends: list[int] = []  # the smallest end of an ascending run of each length
    runs: list[tuple[int, int]] = []  # of each pair: its place, and the pair before it in its run
    last: list[int] = []  # the pair at the end of the run of each length
    for value in before:
        if not (waiting := places.get(value)):
            continue
        place = waiting.popleft()
        length = bisect_left(ends, place)
        runs.append((place, last[length - 1] if length else -1))
        if length == len(ends):
            ends.append(place)
            last.append(len(runs) - 1)
        else:
            ends[length], last[length] = place, len(runs) - 1
    found: list[int] = []
    pair = last[-1] if last else -1
    while pair >= 0:
        place, pair = runs[pair]
        found.append(place)
    return found[::-1]


def _find_by_counts(call: CallSummary, possible: Iterable[CallSummary]) -> Predecessor | None:
    """Return the longest conversation of the session that is not longer than this one, or None: a guess."""
    if call.session_id is None or call.message_count is None:
        return None
    found = [
        each
        for each in possible
        if each.message_count is not None
        and each.message_count <= call.message_count
        and bool(each.tool_count) == bool(call.tool_count)
    ]
    if not found:
        return None
    latest = max(found, key=lambda each: (each.message_count or 0, each.began_at))
    return Predecessor(latest, "counts")
