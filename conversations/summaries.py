"""Small values that represent a call when a later one is compared with it.

For a prompt that is twelve bytes for each unit, at most ``MAX_UNITS``, and less than 1 KB besides:
4 KB for an agent's call with 300 units, and never more than 50 KB."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from conversations.diagnosis import NO_REPORT, CacheReport
from conversations.parameters import Parameters
from conversations.unit import Unit
from conversations.unit_runs import DIGEST_BYTES, EMPTY, ORDER_BYTES, CachedTo, UnitRun
from conversations.units import CONTINUED, Prompt, digest_compaction
from metering.billed_passes import ATTEMPTS
from metering.entry import UsageLogEntry
from metering.model_names import is_same_model
from metering.token_counts import TokenCounts
from metering.usage import Pass, Usage
from wire.block import COMPACTION, CacheTtl
from wire.content import read_content
from wire.json_reading import parse_object

MAX_UNITS = 4_000
MAX_MARKERS = 8  # upstream takes four; the last ones decide
AUXILIARY, COMPACTED_HINT = "auxiliary", "x-claude-code-context-compacted"
PROBE_TOKENS = 1  # a request for so little output warms the cache or asks for a quota


class UnitDigests(NamedTuple):
    """The digests of one unit: of its content, and of the order of its keys."""

    digest: bytes
    order: bytes


class Reminder(NamedTuple):
    """The first unit that the model sees only until the next message of the user.

    ``place`` is its index among units, ``message`` the number of its message."""

    place: int
    message: int


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class PromptSummary:
    """The units of a prompt as concatenated digests, those before the messages separate.

    ``tools`` and ``system`` are the numbers of units of these levels, ``messages`` is the number of
    messages, ``size`` that of bytes. ``continued`` is the digest of the block that replaces an earlier
    history, and ``last_user_message`` the number of the last message of the user."""

    front_digests: bytes
    message_digests: bytes
    orders: bytes
    tools: int
    system: int
    messages: int
    size: int
    markers: tuple[CachedTo, ...]
    parameters: Parameters
    is_continuation: bool
    continued: bytes | None
    reminder: Reminder | None
    last_user_message: int

    @property
    def unit_count(self) -> int:
        return (len(self.front_digests) + len(self.message_digests)) // DIGEST_BYTES

    @property
    def front(self) -> int:
        """Return the number of units before the messages."""
        return self.tools + self.system

    @property
    def levels(self) -> tuple[range, range, range]:
        """Return the places of the units of each level: tools, system, messages."""
        return range(self.tools), range(self.tools, self.front), range(self.front, self.unit_count)

    @property
    def digests(self) -> bytes:
        return self.front_digests + self.message_digests

    def slice_digests(self, start: int, end: int) -> bytes:
        """Return the concatenated digests of the units from ``start`` to before ``end``."""
        return self.digests[DIGEST_BYTES * start : DIGEST_BYTES * end]

    def list_units(self, start: int, end: int) -> list[UnitDigests]:
        """Return the digests of each unit from ``start`` to before ``end``."""
        digests = self.digests
        return [
            UnitDigests(
                digests[DIGEST_BYTES * n : DIGEST_BYTES * (n + 1)],
                self.orders[ORDER_BYTES * n : ORDER_BYTES * (n + 1)],
            )
            for n in range(start, end)
        ]

    @property
    def memory_bytes(self) -> int:
        """Return the approximate memory of this object in bytes."""
        return DIGEST_BYTES * self.unit_count + len(self.orders) + 800


class PromptTokens(NamedTuple):
    """The tokens of the prompt of one pass by kind: read from the cache, written to it, or uncached."""

    read: int = 0
    written_5m: int = 0
    written_1h: int = 0
    uncached: int = 0

    @property
    def written(self) -> int:
        return self.written_5m + self.written_1h

    @property
    def total(self) -> int:
        return self.read + self.written + self.uncached

    @property
    def prefix(self) -> int:
        """Return the number of tokens in the cache after this pass: read and written ones."""
        return self.read + self.written


NO_TOKENS = PromptTokens()


@dataclass(slots=True, kw_only=True)  # not frozen, as above
class CallSummary:
    """One call, with the facts that judging later calls of its conversation needs.

    Times are in seconds since 1970. ``answered_at`` is when the response began, None for a call without
    one: nothing of it is in the cache. ``tokens`` are those of the pass that read what earlier calls
    wrote, which has the number ``pass_index``; ``prefix_tokens`` is the size of the prefix that the
    call left in the cache, None if unknown. ``previous_message_id`` is the message that the request
    names as the one before; ``continues_thread``: the request sends only what is new since then.
    ``is_rebuild``: upstream or the client has shortened the history. ``compaction`` is the digest of
    the block in the response that replaces the history in later requests. ``prompt`` is None if the
    body is not kept or cannot be read."""

    entry_id: str
    began_at: float
    answered_at: float | None = None
    session_id: str | None = None
    agent_id: str | None = None
    credential_hmac: str | None = None
    upstream_organization_id: str | None = None
    model: str | None = None
    request_class: str | None = None
    max_tokens: int | None = None
    message_count: int | None = None
    tool_count: int | None = None
    cache_ttl: CacheTtl | None = None
    message_id: str | None = None
    previous_message_id: str | None = None
    continues_thread: bool = False
    pass_index: int = 0
    tokens: PromptTokens = NO_TOKENS
    prefix_tokens: int | None = 0
    is_rebuild: bool = False
    compaction: bytes | None = None
    prompt: PromptSummary | None = None
    # The first and the last of the units of messages, by which others are told apart quickly.
    first_digest: int | None = field(init=False)
    last_digest: int | None = field(init=False)

    def __post_init__(self) -> None:
        digests = None if self.prompt is None else view_digests(self.prompt.message_digests)
        self.first_digest, self.last_digest = (digests[0], digests[-1]) if digests else (None, None)

    @property
    def is_side_call(self) -> bool:
        """Return whether the call is no turn of a conversation, such as a title, a classifier or a probe."""
        is_probe = self.max_tokens is not None and self.max_tokens <= PROBE_TOKENS
        return is_probe or self.request_class == AUXILIARY

    @property
    def memory_bytes(self) -> int:
        """Return the approximate memory of this object in bytes."""
        return 1_000 + (self.prompt.memory_bytes if self.prompt else 0)


def view_digests(digests: bytes) -> "memoryview[int]":
    """Return digests as numbers, which are created and compared several times as fast as bytes."""
    return memoryview(digests).cast("Q")


def summarize_prompt(prompt: Prompt) -> PromptSummary:
    """Return the summary of a prompt. Units beyond ``MAX_UNITS`` are left out."""
    units, run, front = prompt.units, prompt.run, prompt.front
    if len(units) > MAX_UNITS:
        units = units[:MAX_UNITS]
        run, front = EMPTY.add(units), min(front, MAX_UNITS)
    tools = 0
    while tools < front and units[tools].level == "tools":
        tools += 1
    markers = run.markers[-MAX_MARKERS:]
    if prompt.automatic is not None:
        markers = _list_markers(prompt, run, len(units))
    return PromptSummary(
        front_digests=run.digests[: DIGEST_BYTES * front],
        message_digests=run.digests[DIGEST_BYTES * front :],
        orders=run.orders,
        tools=tools,
        system=front - tools,
        messages=units[-1].message + 1 if units else 0,
        size=run.sums.size,
        markers=markers,
        parameters=prompt.parameters,
        is_continuation=prompt.is_continuation,
        continued=next(
            (
                u.digest
                for u in prompt.units[prompt.front : prompt.front + 1]
                if u.kind == CONTINUED
            ),
            None,
        ),
        reminder=_find_reminder(units),
        last_user_message=_find_last_user_message(units),
    )


def _find_last_user_message(units: Sequence[Unit]) -> int:
    for unit in reversed(units):
        if unit.role == "user":
            return unit.message
    return -1


def _find_reminder(units: Sequence[Unit]) -> Reminder | None:
    """Return the first reminder that the model still sees: no message of the user follows it. Or None."""
    found = None
    for place in range(len(units) - 1, -1, -1):
        unit = units[place]
        if unit.role == "user" or unit.level != "messages":
            break
        if unit.is_reminder:
            found = Reminder(place, unit.message)
    return found


def _list_markers(prompt: Prompt, run: UnitRun, count: int) -> tuple[CachedTo, ...]:
    """Return the markers of the first ``count`` units, including the one that automatic caching sets."""
    markers = []
    for place, ttl in prompt.markers:
        if place < count:
            after = sum(unit.size for unit in prompt.units[place + 1 : count])
            markers.append(CachedTo(place, ttl, run.sums.size - after))
    return tuple(markers[-MAX_MARKERS:])


def summarize_call(
    entry: UsageLogEntry,
    usage: Usage,
    prompt: Prompt | None,
    report: CacheReport = NO_REPORT,
    response: bytes = b"",
) -> CallSummary:
    """Return the summary of a recorded call.

    ``prompt`` is the prompt of its request, None if the body is not kept; ``report`` has the facts
    about the cache in ``response``. Raises ValueError only if ``created_at`` is not an instant."""
    began_at = datetime.fromisoformat(entry.created_at).timestamp()
    is_answered = entry.status_code == 200 and usage.tokens.are_known and entry.ttfb_ms is not None
    summary = CallSummary(
        entry_id=entry.entry_id,
        began_at=began_at,
        answered_at=began_at + (entry.ttfb_ms or 0) / 1000 if is_answered else None,
        session_id=entry.session_id,
        agent_id=entry.agent_id,
        credential_hmac=entry.credential_hmac,
        upstream_organization_id=entry.upstream_organization_id,
        model=entry.model,
        request_class=entry.request_class,
        max_tokens=entry.max_tokens,
        message_count=entry.message_count,
        tool_count=entry.tool_count,
        cache_ttl=entry.cache_ttl,
        message_id=entry.message_id or report.message_id,
        previous_message_id=entry.thread_previous_id
        or (prompt.previous_message_id if prompt else None),
        continues_thread=entry.thread == "continue",
        is_rebuild=_is_rebuild(entry, usage, report),
        compaction=_digest_compaction(response) if _has_compaction(usage) else None,
        prompt=summarize_prompt(prompt) if prompt else None,
    )
    _set_tokens(summary, usage)
    return summary


def count_thread(call: CallSummary, before: CallSummary) -> None:
    """Set the numbers of messages and tools of a call that sent only what is new since ``before``."""
    if call.message_count is None or before.message_count is None:
        return
    known = call.message_count + 1 + before.message_count
    call.message_count = known if call.prompt is None else call.prompt.messages
    call.tool_count = before.tool_count


def _is_rebuild(entry: UsageLogEntry, usage: Usage, report: CacheReport) -> bool:
    if report.has_edits or _has_compaction(usage):
        return True
    if entry.client_hints is None:
        return False
    return COMPACTED_HINT in (parse_object(entry.client_hints.encode()) or {})


def _has_compaction(usage: Usage) -> bool:
    return usage.stop_reason == COMPACTION or any(each.type == COMPACTION for each in usage.passes)


def _digest_compaction(response: bytes) -> bytes | None:
    """Return the digest of the last compaction block in a response, or None."""
    blocks = reversed(read_content(response).blocks)
    found = next((block for block in blocks if block.kind == COMPACTION), None)
    return None if found is None else digest_compaction(found.to_fields())


def _set_tokens(call: CallSummary, usage: Usage) -> None:
    """Set the token counts of the call.

    If the model that answered ran several passes, the first one reads what earlier calls wrote, and the
    last leaves the longest prefix."""
    attempts = _list_attempts(usage) if usage.passes else ()
    if attempts:
        call.pass_index, first = attempts[0]
        call.tokens = _count(first.tokens, first.cache_write_1h_tokens)
        last = attempts[-1][1]
        call.prefix_tokens = _count(last.tokens, last.cache_write_1h_tokens).prefix
        return
    is_sum = usage.is_sum or bool(usage.web_search_requests)
    call.tokens = _count(usage.tokens, usage.cache_write_1h_tokens)
    call.prefix_tokens = None if is_sum else call.tokens.prefix


def _list_attempts(usage: Usage) -> Sequence[tuple[int, Pass]]:
    """Return the passes, with their numbers, of the model that answered, as far as upstream counted them."""
    if usage.passes_are_stale:  # then the counts of the whole call are newer
        return []
    return [
        (index, each)
        for index, each in enumerate(usage.passes)
        if each.type in ATTEMPTS
        and each.tokens.prompt
        and not each.estimates_prompt
        and (each.model is None or is_same_model(each.model, usage.model))
    ]


def _count(tokens: TokenCounts, written_1h: int) -> PromptTokens:
    written = tokens.cache_creation_input_tokens or 0
    return PromptTokens(
        read=tokens.cache_read_input_tokens or 0,
        written_5m=written - written_1h,
        written_1h=written_1h,
        uncached=tokens.input_tokens or 0,
    )
