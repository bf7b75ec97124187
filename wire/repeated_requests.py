"""Parsing and analysis of requests of conversations, limited to the new part of each.

The next request of a conversation begins with nearly all bytes of the one before. So a request is
split into parts (``request_parts``), and the results of an ``Analysis`` for the common bytes are
kept. Several analyses share one look-up, one comparison with the request before, and one parsing of
each part. A request that cannot be split like this is read as a whole, with the same result."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from wire.conversation_memory import MIN_BODY_BYTES, ConversationMemory, Findings
from wire.json_reading import parse_object
from wire.request_parts import (
    find_first_message,
    find_last_starts,
    parse_head,
    parse_messages,
    parse_tail,
)

MAX_BODY_BYTES = 8 * 1024 * 1024  # of a larger one nothing is remembered
MAX_STARTS = 64  # remembered of a conversation


class Beginning(Protocol):
    """The result of an analysis for the head of a request and its first messages.

    Objects are immutable, because other requests may have the same beginning."""

    @property
    def mark(self) -> Any:
        """Return a value with which ``cut`` finds this beginning in a longer one of the same request."""

    def add(self, messages: Sequence[object], text: bytes) -> "Beginning":
        """Return the beginning extended by messages, whose JSON is ``text``. May raise ValueError."""

    def cut(self, mark: Any) -> "Beginning":
        """Return the shorter beginning whose ``mark`` is given."""

    def finish(self, tail: Mapping[str, object]) -> Any:
        """Return the final result. ``tail`` has the fields after the last message. May raise ValueError."""


class Analysis(Protocol):
    """An analysis of requests.

    It raises ValueError for parts of a request that it can analyse only as a whole."""

    def begin(self, head: Mapping[str, object], text: bytes) -> Beginning:
        """Return the result for the head, the fields before the messages, whose JSON is ``text``.

        May raise ValueError."""

    def read_whole(self, document: dict[str, object] | None, text: bytes) -> Any:
        """Return the result for a request that is parsed as a whole. Never raises.

        ``document`` is None if the request is not a JSON object, or too large."""


class _Known(NamedTuple):
    """The analysis of a request up to its last messages.

    At each of ``starts`` a message begins, with the bytes ``opening``; ``marks`` has for each start the
    marks of the beginnings that end there."""

    opening: bytes
    starts: tuple[int, ...]
    marks: tuple[Sequence[Any], ...]
    beginnings: Sequence[Beginning]


class RepeatedRequests:
    """A reader of requests that remembers the last one of each conversation."""

    def __init__(
        self, analyses: Sequence[Analysis], memory: ConversationMemory | None = None
    ) -> None:
        """Read requests with a memory of conversations, which other readers may share."""
        self._analyses = analyses
        # None stands for a conversation whose requests cannot be taken apart.
        self._findings = Findings[_Known | None](memory)

    def read(self, body: bytes, *labels: object) -> list[Any]:
        """Return the result of each analysis.

        ``labels`` identify the conversation as far as the caller can."""
        if not MIN_BODY_BYTES <= len(body) <= MAX_BODY_BYTES:
            return self._read_whole(body)
        key = self._findings.guess_key(body, *labels)
        kept = self._findings.find(key)
        if kept is not None and kept.found is None:
            return self._read_whole(body)
        recalled = None
        if kept is not None and kept.found is not None:
            recalled = _recall(self._findings.shared_length(kept, body), kept.found)
        try:
            known = _add_messages(body, recalled or self._begin(body))
            results = _finish(body, known)
        except ValueError:
            if recalled is None:
                self._findings.keep(key, b"", None)
            return self._read_whole(body)
        self._findings.keep(key, body, known)
        return results

    def _read_whole(self, body: bytes) -> list[Any]:
        document = parse_object(body)
        return [each.read_whole(document, body) for each in self._analyses]

    def _begin(self, body: bytes) -> _Known:
        first = find_first_message(body)
        text = body[: first.start]
        head = parse_head(text)
        beginnings = [each.begin(head, text) for each in self._analyses]
        return _Known(first.mark, (first.start,), (_list_marks(beginnings),), beginnings)


def _recall(shared: int, known: _Known) -> _Known | None:
    """Return the part of ``known`` for the first ``shared`` bytes, or None."""
    count = bisect_right(known.starts, shared - len(known.opening))
    if not count:
        return None
    marks = known.marks[:count]
    beginnings = zip(known.beginnings, marks[-1], strict=True)
    return _Known(
        known.opening,
        known.starts[:count],
        marks,
        [each.cut(mark) for each, mark in beginnings],
    )


def _add_messages(body: bytes, known: _Known) -> _Known:
    """Return ``known`` extended by all messages but the last few."""
    starts, marks, beginnings = [*known.starts], [*known.marks], known.beginnings
    for start in find_last_starts(body, known.opening, starts[-1]):
        text = body[starts[-1] : start]
        messages = parse_messages(text)
        beginnings = [each.add(messages, text) for each in beginnings]
        starts.append(start)
        marks.append(_list_marks(beginnings))
    return _Known(
        known.opening, tuple(starts[-MAX_STARTS:]), tuple(marks[-MAX_STARTS:]), beginnings
    )


def _finish(body: bytes, known: _Known) -> list[Any]:
    """Return the results of all analyses for the whole request."""
    text = body[known.starts[-1] :]
    last, tail = parse_tail(text)
    if "messages" in tail:
        raise ValueError("other messages behind the messages")
    return [each.add(last, text).finish(tail) for each in known.beginnings]


def _list_marks(beginnings: Sequence[Beginning]) -> Sequence[Any]:
    return [each.mark for each in beginnings]
