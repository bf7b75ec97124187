"""An upstream that holds message threads, as the Messages API does: in memory, one continue a response.

It knows nothing of the program under test. What it rebuilds of a request is what its model would be given,
and what it bills is counted of that (``tests.conversations.upstream_cache``).
"""

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.conversations.upstream_cache import UpstreamCache
from tests.live.messages import API_HEADERS, Answer, Block, Counts, stream_of
from tests.upstream import CLOSE, READ_BODY, Gate, Script, SeenRequest, answer

BETA = "message-threads-2026-08-12"
ATTRIBUTION = "x-anthropic-billing-header:"
_STATUS = {"thread_not_found": 404}
_OF_THREAD = ("system", "tools")
_FIXED = (*_OF_THREAD, "output_config")

type Document = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The next answer of the model. It is not stored where it is of a fallback model, or cut."""

    content: Sequence[Block]
    is_of_fallback: bool = False
    is_cut: bool = False
    before_end: Gate | None = None


@dataclass(kw_only=True)
class Turn:
    """A request that was answered: all that the model was given, and the answer."""

    whole: Document
    answer: Answer


@dataclass
class _Stored:
    """The thread up to a response."""

    whole: Document
    is_continued: bool = False
    is_in_flight: bool = False


@dataclass
class ThreadUpstream:
    """Answers message requests by ``respond``, which is to be the ``choose`` of an upstream. ``name`` is a
    part of the ids of its messages, which no other upstream gives."""

    replies: Iterable[Reply]
    name: str
    turns: list[Turn] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)
    _stored: dict[str, _Stored] = field(default_factory=dict)
    _cache: UpstreamCache = field(default_factory=UpstreamCache)

    def __post_init__(self) -> None:
        self._replies = iter(self.replies)

    def respond(self, _seen: SeenRequest) -> Script:
        return Script((READ_BODY, self._answer))

    def expire(self) -> None:
        """Forget all threads, as five minutes after the last request."""
        self._stored.clear()

    def _answer(self, seen: SeenRequest) -> Script:
        body = json.loads(seen.body)
        thread = body.get("thread") or {}
        stored = None
        if thread and BETA not in (seen.header("anthropic-beta") or ""):
            return self._refuse("thread: Extra inputs are not permitted", None)
        if thread.get("type") == "continue":
            stored = self._stored.get(thread["previous_message_id"])
            if (code := _find_error(body, stored)) is not None:
                return self._refuse(f"because of {code}", code)
        return self._reply(body, _rebuild(body, stored), stored)

    def _refuse(self, message: str, code: str | None) -> Script:
        error: Document = {"type": "invalid_request_error", "message": message}
        if code is not None:
            error["details"] = {"error_code": code}
        if code == "thread_not_found":
            error["type"] = "not_found_error"
        self.errors.append(json.dumps({"type": "error", "error": error}).encode())
        headers = [("content-type", "application/json"), *API_HEADERS]
        return answer(_STATUS.get(code or "", 400), self.errors[-1], headers)

    def _reply(self, body: Document, whole: Document, stored: _Stored | None) -> Script:
        reply = next(self._replies)
        counts = self._cache.count(_mark(whole), at=float(len(self.turns)))
        given = Answer(
            content=reply.content,
            message_id=f"msg_01{self.name}{len(self.turns)}",
            counts=Counts(
                input=counts["input_tokens"],
                read=counts["cache_read_input_tokens"],
                write_5m=counts["ephemeral_5m_input_tokens"],
                write_1h=counts["ephemeral_1h_input_tokens"],
            ),
        )
        if reply.is_of_fallback:
            given = replace(given, passes=[_as_pass(given)])
        self.turns.append(Turn(whole=whole, answer=given))
        if stored is not None:
            stored.is_in_flight = True

        def settle(_seen: SeenRequest) -> bytes:
            if stored is not None:
                stored.is_in_flight, stored.is_continued = False, True
            if "thread" in body and not (reply.is_of_fallback or reply.is_cut):
                history = [*whole["messages"], {"role": "assistant", "content": given.content}]
                self._stored[given.message_id] = _Stored({**whole, "messages": history})
            return b""

        return _script(given, reply, settle, is_streamed=body.get("stream") is True)


def _find_error(body: Document, stored: _Stored | None) -> str | None:
    """Return the code of the error with which a continue is refused, or None."""
    if stored is None:
        return "thread_not_found"
    if stored.is_in_flight:
        return "thread_continue_in_flight"
    if stored.is_continued:
        return "thread_already_continued"
    differs = [
        name
        for name in _FIXED
        if name in body and body[name] != stored.whole.get(name) and not _is_attribution(body[name])
    ]
    return "thread_fingerprint_mismatch" if differs else None


def _is_attribution(system: object) -> bool:
    """Return whether a system prompt is the attribution block of Claude Code alone, which may change."""
    return (
        isinstance(system, list)
        and len(system) == 1
        and str(system[0].get("text", "")).startswith(ATTRIBUTION)
    )


def _rebuild(body: Document, stored: _Stored | None) -> Document:
    """Return the request with all that the model is given."""
    own = {name: value for name, value in body.items() if name != "thread"}
    if stored is None:
        return own
    of_thread = {name: stored.whole[name] for name in _OF_THREAD if name in stored.whole}
    return {**own, **of_thread, "messages": [*stored.whole["messages"], *own["messages"]]}


def _mark(whole: Document) -> Document:
    """Return a request in which automatic caching is a marker on the last block."""
    whole = copy.deepcopy(whole)
    if "cache_control" in whole:
        last = whole["messages"][-1]
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"][-1]["cache_control"] = whole["cache_control"]
    return whole


def _as_pass(given: Answer) -> Document:
    """Return the pass of a fallback model that gave an answer."""
    return {"type": "fallback_message", "model": given.model} | given.counts.columns


def _script(
    given: Answer, reply: Reply, settle: Callable[[SeenRequest], bytes], *, is_streamed: bool
) -> Script:
    if not is_streamed:
        held = (reply.before_end,) if reply.before_end else ()
        return given.script(streamed=False).preceded_by(*held, settle)
    *events, end = given.events()
    if reply.is_cut:
        return Script((*stream_of(events[: len(events) // 2]).steps[:-1], settle, CLOSE))
    head, *chunks, tail = stream_of([*events, end]).steps
    held = (reply.before_end,) if reply.before_end else ()
    return Script((head, *chunks[:-1], *held, settle, chunks[-1], tail))
