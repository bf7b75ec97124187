"""The analysis that finds the prompts of requests, of which only the new part of each is analysed.

The units of the head and of the messages that a request shares with the one before are kept
(``wire.repeated_requests``)."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import orjson

from conversations.unit import Unit
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
from wire.request import MESSAGES, Request, read_messages

MAX_BODY_BYTES = 16 * 1024 * 1024  # a larger one has no prompt: others would wait for it


class PromptAnalysis:
    """The analysis for ``wire.repeated_requests`` that finds the same prompts as ``read_prompt``."""

    def begin(self, head: Mapping[str, object], _text: bytes) -> "_Found":
        """Return the analysis of the part of a request before the messages. Raises TooManyUnitsError."""
        names = frozenset(Request(head).front)
        settings = {name: head[name] for name in head if name not in (*names, MESSAGES)}
        return _Found(settings, _Front.read(head), names, _LateFront())

    def read_whole(self, document: dict[str, object] | None, text: bytes) -> Prompt | None:
        """Return the prompt of a request, or None if it is not a JSON object or too large."""
        if document is None or len(text) > MAX_BODY_BYTES:
            return None
        try:
            prompt = read_prompt(Request(document))
        except TooManyUnitsError:
            return None
        return prompt if len(prompt.units) <= MAX_PROMPT_UNITS else None


class _Front(NamedTuple):
    """The units before the messages of a request, with their run."""

    units: Sequence[Unit]
    run: UnitRun

    @classmethod
    def read(cls, fields: Mapping[str, object]) -> "_Front":
        units = list_front_units(Request(fields))
        return cls(units, EMPTY.add(units))


class _LateFront:
    """The last front that a conversation sent after its messages, with the digest of its JSON."""

    def __init__(self) -> None:
        self._digest: bytes | None = None
        self._front = _Front((), EMPTY)

    def read(self, tail: Mapping[str, object]) -> _Front:
        """Return the front in a tail, which is analysed only if it differs from the last one.

        Serialising and hashing take a fraction of that time, and also notice the order of keys."""
        try:
            written = orjson.dumps([*Request(tail).front.items()])
        except orjson.JSONEncodeError:  # too deep to be written
            return _Front.read(tail)
        digest = blake2b(written, digest_size=16).digest()
        if digest != self._digest:
            self._digest, self._front = digest, _Front.read(tail)
        return self._front


class _Mark(NamedTuple):
    """A number of messages from the beginning, with the sums over their units."""

    messages: int
    sums: Sums


class _Found(NamedTuple):
    """The analysis of a request up to some message.

    ``settings`` are the fields of the head that do not belong to ``front``; ``front_names`` are the
    names of the others."""

    settings: Mapping[str, object]
    front: _Front
    front_names: frozenset[str]
    late: _LateFront
    messages: int = 0
    units: Sequence[Unit] = ()
    run: UnitRun = EMPTY

    @property
    def mark(self) -> _Mark:
        return _Mark(self.messages, self.run.sums)

    def add(self, messages: Sequence[object], _text: bytes) -> "_Found":
        added = list_message_units(read_messages(messages), self.messages)
        count = self.messages + len(messages)
        return self._with(count, [*self.units, *added], self.run.add(added))

    def cut(self, mark: _Mark) -> "_Found":
        return self._with(mark.messages, self.units[: mark.sums.units], self.run.cut(mark.sums))

    def _with(self, messages: int, units: Sequence[Unit], run: UnitRun) -> "_Found":
        # In order of its fields: `_replace` takes four times as long, several times a request.
        return _Found(self.settings, self.front, self.front_names, self.late, messages, units, run)

    def finish(self, tail: Mapping[str, object]) -> Prompt:
        front = self.front
        if Request(tail).front:
            if self.front_names:
                raise ValueError("on both sides of the messages: no usual client writes that")
            front = self.late.read(tail)
        units = [*front.units, *self.units]
        if len(units) > MAX_PROMPT_UNITS:
            raise TooManyUnitsError
        settings = {**self.settings, **tail}
        return make_prompt(settings, units, len(front.units), front.run.join(self.run))
