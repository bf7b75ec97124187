"""Request bodies, each determined by its kind and its index alone.

So every proxy that is compared gets the same bodies in the same order. ``agent`` bodies are like those
of coding agents: a fixed system prompt and tools, and a conversation that repeats and grows with every
turn while the cache markers move along. Call ``i`` is the next turn of session ``i % SESSIONS``; a
session starts near 250 KB and grows by some 2.2 KB a turn. ``unique`` bodies have the same shape and
size, but every message differs from all earlier ones, so that nothing is stored once for several
calls. ``streamed`` bodies are small and request a stream: other programs buffer a response that was
not requested as a stream."""

import json
import os
import random
from functools import cache
from pathlib import Path
from typing import Literal

type Kind = Literal["small", "streamed", "agent", "unique"]

SESSIONS = 64
SESSION_START_BYTES = 255_000
TURN_BYTES = 2_000
UNIQUE_MESSAGES = 116
SALT = b"@@@@@@@@"
MARKER = b',"cache_control":{"type":"ephemeral"}'


def make_body(kind: Kind, index: int) -> bytes:
    if kind == "agent":
        return _session(index % SESSIONS).body(index // SESSIONS)
    template = _unique_template() if kind == "unique" else _small_template(kind)
    return template.replace(SALT, b"%08d" % index)


class Session:
    """The conversation of one agent.

    Messages are made when first needed and kept as bytes, so that the client costs less than the
    proxy."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - the same traffic on every run
        self._head = _head()
        self._messages: list[bytes] = []
        self._first_turn = 0
        size = len(self._head)
        while size < SESSION_START_BYTES:
            self._add_turn()
            self._first_turn += 1
            size += len(self._messages[-1]) + len(self._messages[-2])

    def body(self, turn: int) -> bytes:
        """Return the request body of a turn: the conversation so far and the user's last message."""
        last = 2 * (self._first_turn + turn)
        while len(self._messages) <= last:
            self._add_turn()
        sent = self._messages[: last + 1]
        for place in (-1, -3):
            sent[place] = sent[place].removesuffix(b"}]}") + MARKER + b"}]}"
        return b"".join((self._head, b",".join(sent), b"]}"))

    def _add_turn(self) -> None:
        number = len(self._messages)
        result = _quote(make_text(self._rng, self._rng.randrange(TURN_BYTES // 2, 2 * TURN_BYTES)))
        self._messages += (
            b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%b}]}'
            % (number, result),
            b'{"role":"assistant","content":[{"type":"text","text":%b},'
            b'{"type":"tool_use","id":"toolu_%d","name":"tool_1","input":{"path":%b}}]}'
            % (_quote(make_text(self._rng, 300)), number + 2, _quote(make_text(self._rng, 60))),
        )


@cache
def _session(number: int) -> Session:
    return Session(number)


@cache
def _small_template(kind: Kind) -> bytes:
    rng = random.Random(0)  # noqa: S311
    stream = b'"stream":true,' if kind == "streamed" else b""
    return b"".join(
        (
            b'{"model":"claude-sonnet-4-5","max_tokens":1024,%b"system":' % stream,
            _quote(make_text(rng, 900)),
            b',"messages":[{"role":"user","content":',
            _quote(SALT.decode() + " " + make_text(rng, 900)),
            b"}]}",
        )
    )


@cache
def _unique_template() -> bytes:
    rng = random.Random(1)  # noqa: S311 - the same traffic on every run
    messages = (
        b'{"role":"%b","content":[{"type":"text","text":%b}]}'
        % (role, _quote(f"{SALT.decode()} {make_text(rng, TURN_BYTES)}"))
        for _ in range(UNIQUE_MESSAGES // 2)
        for role in (b"user", b"assistant")
    )
    tools_and_system = _head().replace(b"cache_", SALT + b"cache_")
    return b"".join((tools_and_system, b",".join(messages), b"]}"))


@cache
def _head() -> bytes:
    rng = random.Random(2)  # noqa: S311
    tools = [
        {
            "name": f"tool_{number}",
            "description": make_text(rng, 2_000),
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
        }
        for number in range(16)
    ]
    return b"".join(
        (
            b'{"model":"claude-sonnet-4-5","max_tokens":32000,"stream":false,'
            b'"system":[{"type":"text","text":',
            _quote(make_text(rng, 18_000)),
            MARKER,
            b'}],"tools":',
            json.dumps(tools, separators=(",", ":")).encode(),
            b',"messages":[',
        )
    )


def _quote(text: str) -> bytes:
    return json.dumps(text).encode()


def make_text(rng: random.Random, length: int) -> str:
    """Return a random part of the standard library's source, of ``length`` characters."""
    source = _source()
    start = rng.randrange(len(source) - length)
    return source[start : start + length]


@cache
def _source() -> str:
    """Return the source of the standard library, as real text for messages."""
    folder = Path(os.__file__).parent
    texts = (path.read_text(errors="ignore") for path in sorted(folder.glob("*.py")))
    return "".join(texts).encode("ascii", "ignore").decode()
