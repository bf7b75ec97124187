"""Reading the prompts of requests while analysing only what is new in each.

The next request of a conversation begins with nearly all of the one before. It is taken in parts
(``metering.request_parts``), and the units of the head and of the messages that both requests have are
kept.

What cannot be taken apart like this is analysed as a whole, with the same result.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import orjson

from conversations.unit import Level, Unit
from conversations.unit_runs import EMPTY, Sums, UnitRun
from conversations.units import (
    MAX_PROMPT_UNITS,
    Prompt,
    TooManyUnitsError,
    list_front_units,
    list_message_units,
    make_prompt,
    read_prompt,
)
from metering.conversation_memory import (
    MIN_BODY_BYTES,
    ConversationMemory,
    Findings,
)
from metering.request_parts import PartParser, find_first_message, find_last_starts
from wire.request import read_messages

MAX_BODY_BYTES = 8 * 1024 * 1024  # of a larger one nothing is remembered
MAX_STARTS = 64  # remembered of a conversation
_FRONT = ("tools", "mcp_servers", "system")

type Front = dict[Level, list[Unit]]


class _Start(NamedTuple):
    """A place in the body where a message begins: how many messages come before it, and
    the sums over their units."""

    place: int
    messages: int
    sums: Sums


class _LateFront(NamedTuple):
    """A front that stands after the messages, with the digest of its JSON.

    The digest is None where the front is too deep to be written."""

    digest: bytes | None
    front: Front
    run: UnitRun


class _Known(NamedTuple):
    """The analysis of a request up to its last messages. ``settings`` are the fields of the head without
    those that ``front`` is made of, whose names are in ``front_names``. ``late`` is the front of a request
    that has it after the messages."""

    settings: dict[str, object]
    front_names: frozenset[str]
    front: Front
    mark: bytes
    starts: tuple[_Start, ...]
    units: Sequence[Unit]
    run: UnitRun
    front_run: UnitRun
    is_first_party: bool
    late: _LateFront | None = None


class PromptReader:
    """Returns the prompts of requests, and remembers the last one of each conversation."""

    def __init__(self, memory: ConversationMemory | None = None) -> None:
        """Read prompts with a memory of conversations, which may be shared with others."""
        self._findings = Findings[_Known | None](memory)

    def read(self, body: bytes, *labels: object, is_first_party: bool = True) -> Prompt | None:
        """Return the prompt of a request, None for what is no JSON object or too much to be parsed.
        ``labels`` tell conversations apart as far as the caller can."""
        try:
            return self._read(body, *labels, is_first_party=is_first_party)
        except TooManyUnitsError:
            return None

    def _read(self, body: bytes, *labels: object, is_first_party: bool) -> Prompt | None:
        parts = self._findings.parts
        if not MIN_BODY_BYTES <= len(body) <= MAX_BODY_BYTES:
            return _read_whole(body, parts, is_first_party=is_first_party)
        key = self._findings.guess_key(body, *labels)
        kept = self._findings.find(key)
        if kept is not None and kept.found is None:
            return _read_whole(body, parts, is_first_party=is_first_party)
        known = None
        if kept is not None and kept.found is not None:
            is_alike = kept.found.is_first_party == is_first_party
            if is_alike:
                known = _recall(self._findings.shared_length(kept, body), kept.found)
        is_recalled = known is not None
        known = known or _read_head(body, parts, is_first_party=is_first_party)
        known = None if known is None else _read_messages(body, known, parts)
        read = None if known is None else _read_tail(body, known, parts)
        if read is not None:
            prompt, known = read
            self._findings.keep(key, body, known)
            return prompt
        if not is_recalled:
            self._findings.keep(key, b"", None)
        return _read_whole(body, parts, is_first_party=is_first_party)


def _read_whole(body: bytes, parts: PartParser, *, is_first_party: bool) -> Prompt | None:
    request = parts.whole(body)
    return None if request is None else read_prompt(request, is_first_party=is_first_party)


def _recall(shared: int, known: _Known) -> _Known | None:
    """Return what is known of so many bytes, which the request before has in common with this one."""
    last = shared - len(known.mark)
    count = len(known.starts)
    while count and known.starts[count - 1].place > last:
        count -= 1
    if not count:
        return None
    starts = known.starts[:count]
    sums = starts[-1].sums
    return known._replace(starts=starts, units=known.units[: sums.units], run=known.run.cut(sums))


def _read_head(body: bytes, parts: PartParser, *, is_first_party: bool) -> _Known | None:
    first = find_first_message(body)
    if first is None:
        return None
    head = parts.head(body, first.start)
    if not isinstance(head, dict):
        return None
    front = list_front_units(head, is_first_party=is_first_party)
    return _Known(
        settings={name: head[name] for name in head if name not in (*_FRONT, "messages")},
        front_names=frozenset(name for name in _FRONT if name in head),
        front=front,
        mark=first.mark,
        starts=(_Start(first.start, 0, EMPTY.sums),),
        units=[],
        run=EMPTY,
        front_run=_run_through(front),
        is_first_party=is_first_party,
    )


def _read_messages(body: bytes, known: _Known, parts: PartParser) -> _Known | None:
    """Return the same with all messages but the last few."""
    starts, units, run = [known.starts[-1]], list(known.units), known.run
    for place in find_last_starts(body, known.mark, starts[0].place):
        messages = parts.messages(body, starts[-1].place, place)
        if messages is None:
            return None
        number = starts[-1].messages
        added = list_message_units(read_messages(messages), number)
        units += added
        run = run.add(added)
        starts.append(_Start(place, number + len(messages), run.sums))
    kept = (*known.starts[:-1], *starts)[-MAX_STARTS:]
    return known._replace(starts=kept, units=units, run=run)


def _read_tail(body: bytes, known: _Known, parts: PartParser) -> tuple[Prompt, _Known] | None:
    """Return the prompt of the whole, with what is known then.

    None where the rest is not what it should be."""
    start = known.starts[-1]
    parsed = parts.tail(body, start.place)
    if parsed is None:
        return None
    last, tail = parsed
    if "messages" in tail:
        return None
    front, front_run = known.front, known.front_run
    if any(name in tail for name in _FRONT):
        if known.front_names:  # on both sides of the messages: no usual client writes that
            return None
        late = _read_late_front(tail, known)
        known = known._replace(late=late)
        front, front_run = late.front, late.run
    added = list_message_units(read_messages(last), start.messages)
    units = [*front["tools"], *front["system"], *known.units, *added]
    if len(units) > MAX_PROMPT_UNITS:
        raise TooManyUnitsError
    run = front_run.join(known.run.add(added))
    return make_prompt(known.settings | tail, units, front_run.sums.units, run), known


def _read_late_front(tail: Mapping[str, object], known: _Known) -> _LateFront:
    """Return the front in a tail; it is analysed when it is another one than in the request before.

    To write and hash it takes a fraction of that time, and tells apart the order of keys too."""
    try:
        written = orjson.dumps([[name, tail[name]] for name in _FRONT if name in tail])
    except orjson.JSONEncodeError:
        digest = None
    else:
        digest = blake2b(written, digest_size=16).digest()
    if digest is not None and known.late is not None and known.late.digest == digest:
        return known.late
    front = list_front_units(tail, is_first_party=known.is_first_party)
    return _LateFront(digest, front, _run_through(front))


def _run_through(front: Front) -> UnitRun:
    return EMPTY.add(front["tools"]).add(front["system"])
