"""The judgement of calls as they are recorded: which call each continues, and whether it broke the
cache.

``conversations`` decides that from summaries of the latest calls. Here these are remembered, or
read from the database if they are not (after a restart, or when a session continues after a while),
and the bodies of the predecessor are read if a break is to be explained. A call may be stored after
the one that continues it, because calls are stored in the order in which they end. The continuing
call is then judged again. A call that cannot be judged is stored without a judgement: no failure
here keeps an entry from being stored."""

import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime

from conversations.cache_breaks import CacheBreak, Measured, explain_break, measure_break
from conversations.diagnosis import CacheReport, read_cache_report
from conversations.predecessor import (
    MAX_IDLE_S,
    find_named,
    find_predecessor,
    may_be_continued_by,
)
from conversations.recent_calls import (
    KEPT,
    KEPT_WITHOUT_SESSION,
    MAX_BYTES,
    RecentCalls,
    list_successors,
)
from conversations.summaries import CallSummary, count_thread, summarize_call
from conversations.units import Prompt, list_failed_tools, list_results
from metering.prices import PriceTable
from metering.request_facts import keep_plain_name
from metering.tool_results import UseResult
from recorder import recorded_calls
from recorder.recorded_calls import RecordedCall
from recorder.requests import RequestReader
from recorder.threads import ThreadPrompts, read_request
from runtime import clock
from runtime.trouble_log import TroubleLog
from store.traces.calls import cache_breaks
from store.traces.calls.costs import to_real
from store.traces.calls.judgements import Judgement
from store.traces.calls.predecessors import MAX_LATER
from wire.json_reading import clean_text

logger = logging.getLogger(__name__)

type Connect = Callable[[], sqlite3.Connection]

# Read again of a conversation that is not remembered. Programs that send no session are told apart by
# their credential, for which there is no index: only the calls stored last are looked through.
RECALLED_BYTES, LOOKED_THROUGH = 4 * 1024 * 1024, 2_000
MAX_JUDGED_AGAIN, MAX_NAMESAKES = 8, 8
MAX_NAMES_CHARS = 200
# Message ids of platforms that do not remove the attribution block of Claude Code.
_OTHER_UPSTREAMS = ("msg_bdrk", "msg_vrtx")
_OF_AGENT = "where session_id = ? and agent_id is ?"
_OF_CREDENTIAL = (
    "where id > (select max(id) from usage) - ? and session_id is null and credential_hmac is ?"
    " and created_at > ?"
)
_STORED = tuple(field.name for field in fields(cache_breaks.CacheBreak))


class Judge:
    """A judge of the calls of many organisations, one after the other."""

    def __init__(
        self,
        prices: Callable[[], PriceTable],
        requests: RequestReader,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Judge by these prices.

        ``requests`` reads calls that were stored before, ``max_bytes`` limits the memory for earlier
        calls."""
        self._prices = prices
        self._max_bytes = max_bytes
        self._requests = requests
        self._threads = ThreadPrompts()
        self._recent = RecentCalls(max_bytes)
        self._batch: dict[str, RecordedCall] = {}
        self._trouble = TroubleLog(logger, "A call is stored without looking for a cache break: %s")

    def forget_batch(self) -> None:
        """Forget the calls of the last batch: they are stored, or will be judged again."""
        self._batch.clear()

    def forget(self) -> None:
        """Forget everything, to give back memory."""
        self._batch.clear()
        self._threads = ThreadPrompts()
        self._recent = RecentCalls(self._max_bytes)

    def judge(self, owner: str, call: RecordedCall, connect: Connect) -> list[Judgement]:
        """Return the judgement of a call, if it continues another one, and of calls that continue it.

        ``connect`` returns the database of earlier calls. Raises only MemoryError."""
        try:
            return self._judge(owner, call, connect)
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, the entry is stored, without a judgement
            self._trouble.report(f"{type(error).__name__}: {error}")
            logger.debug("%s", call.entry.entry_id, exc_info=True)
            return []

    def _judge(self, owner: str, call: RecordedCall, connect: Connect) -> list[Judgement]:
        summary, prompt, report = self._summarize(owner, call, connect)
        if not self._recent.knows(owner, summary):
            self._recall(owner, summary, connect)
        self._batch[call.entry.entry_id] = call
        candidates = self._list_candidates(owner, call, summary, connect)
        found = self._judge_among(owner, candidates, call, summary, prompt, report, connect)
        self._recent.add(owner, summary)
        again = self._judge_again(owner, call, summary, candidates, connect)
        return [found, *again] if found is not None else again

    def _list_candidates(
        self, owner: str, call: RecordedCall, summary: CallSummary, connect: Connect
    ) -> list[CallSummary]:
        """Return the calls that ``call`` may continue.

        They are remembered calls of its session, and the one that it names."""
        candidates = self._recent.list_candidates(owner, summary)
        if summary.continues_thread and not _has_named(candidates, summary):
            parent = self._find_parent(call, connect)
            if parent is not None:
                candidates.append(self._summarize(owner, parent, connect)[0])
        return candidates

    def _recall(self, owner: str, call: CallSummary, connect: Connect) -> None:
        """Read the latest stored calls of the session and agent of a call, and remember them."""
        values: tuple[object, ...]
        if call.session_id is not None:
            where, count = _OF_AGENT, KEPT
            values = call.session_id, call.agent_id
        else:
            where, count = _OF_CREDENTIAL, KEPT_WITHOUT_SESSION
            earliest = clock.format_ms(datetime.fromtimestamp(call.began_at - MAX_IDLE_S, UTC))
            values = LOOKED_THROUGH, call.credential_hmac, earliest
        for each in recorded_calls.read_latest(connect(), where, values, count, RECALLED_BYTES):
            self._recent.add(owner, self._summarize(owner, each, connect)[0])

    def _judge_again(
        self,
        owner: str,
        recorded: RecordedCall,
        call: CallSummary,
        others: Sequence[CallSummary],
        connect: Connect,
    ) -> list[Judgement]:
        """Return the judgements of other calls that continue this one and were judged without it.

        The prompts of a message thread are whole only now, so all later calls of the thread are judged
        again."""
        successors = [
            each.entry_id
            for each in list_successors(call, others)
            if may_be_continued_by(call, each)
        ]
        children = self._find_children(recorded, connect)
        waiting = deque([*successors[-MAX_JUDGED_AGAIN:], *children])
        found: dict[str, Judgement] = {}
        while waiting and len(found) < MAX_LATER:
            entry_id = waiting.popleft()
            stored = None if entry_id in found else self._find(entry_id, connect)
            if stored is None:  # it will be recorded yet, and judged then
                continue
            self._threads.forget(owner, entry_id)
            summary, prompt, report = self._summarize(owner, stored, connect)
            candidates = self._list_candidates(owner, stored, summary, connect)
            judged = self._judge_among(owner, candidates, stored, summary, prompt, report, connect)
            if judged is None or judged.previous_entry_id not in (call.entry_id, *found):
                continue
            found[entry_id] = judged
            if summary.continues_thread and prompt is not None:
                self._recent.add(owner, summary)
                waiting.extend(self._find_children(stored, connect))
        return list(found.values())

    def _judge_among(
        self,
        owner: str,
        candidates: Sequence[CallSummary],
        call: RecordedCall,
        summary: CallSummary,
        prompt: Prompt | None,
        report: CacheReport,
        connect: Connect,
    ) -> Judgement | None:
        if summary.is_side_call:
            return None
        before = find_predecessor(summary, prompt, candidates)
        if before is None:
            return None
        if summary.continues_thread:
            count_thread(summary, before.call)
        measured = measure_break(summary, before, candidates)
        return Judgement(
            entry_id=summary.entry_id,
            previous_entry_id=before.call.entry_id,
            failed_tools=_name_failed_tools(before.call, prompt),
            results=_list_results(before.call, call, prompt),
            cache_break=None
            if measured is None
            else _as_stored(self._explain(owner, call, summary, measured, prompt, report, connect)),
        )

    def _explain(
        self,
        owner: str,
        call: RecordedCall,
        summary: CallSummary,
        measured: Measured,
        prompt: Prompt | None,
        report: CacheReport,
        connect: Connect,
    ) -> CacheBreak:
        before = self._find(measured.predecessor.entry_id, connect)
        prompt_before, requests = None, None
        if prompt is not None and before is not None:
            prompt_before = self._summarize(owner, before, connect)[1]
            old, new = (
                read_request(each, lambda one: self._find_parent(one, connect))
                for each in (before, call)
            )
            requests = None if old is None or new is None else (old, new)
        return explain_break(
            summary,
            measured,
            call.bill,
            self._prices(),
            prompt=prompt,
            before=prompt_before,
            requests=requests,
            report=report,
        )

    def _find(self, entry_id: str, connect: Connect) -> RecordedCall | None:
        return self._batch.get(entry_id) or recorded_calls.read_by_entry_id(connect(), entry_id)

    def _find_parent(self, call: RecordedCall, connect: Connect) -> RecordedCall | None:
        """Return the call that a request of a message thread names, or None if it is not recorded."""
        wanted = call.entry.thread_previous_id
        if wanted is None:
            return None
        named = [each for each in self._batch.values() if each.entry.message_id == wanted]
        named += recorded_calls.read_latest(
            connect(), "where message_id = ?", (wanted,), MAX_NAMESAKES, RECALLED_BYTES
        )
        found = find_named(_summarize_alone(call), [_summarize_alone(each) for each in named])
        return next(
            (each for each in named if found and each.entry.entry_id == found.entry_id), None
        )

    def _find_children(self, call: RecordedCall, connect: Connect) -> list[str]:
        """Return the entry ids of recorded calls that continue a message thread from ``call``."""
        entry = call.entry
        if entry.thread is None or entry.message_id is None:
            return []
        ids = [
            each.entry.entry_id
            for each in self._batch.values()
            if each.entry.thread_previous_id == entry.message_id
        ]
        rows = connect().execute(
            "select entry_id from usage where thread_previous_id = ? limit ?",
            (entry.message_id, MAX_NAMESAKES),
        )
        return [*ids, *(entry_id for (entry_id,) in rows)]

    def _summarize(
        self, owner: str, call: RecordedCall, connect: Connect
    ) -> tuple[CallSummary, Prompt | None, CacheReport]:
        if call.entry.thread is None:
            prompt = self._read_prompt(call)
        else:
            prompt = self._threads.read(
                owner, call, lambda each: self._find_parent(each, connect), self._read_prompt
            )
        report = read_cache_report(call.usage)
        summary = summarize_call(call.entry, call.usage, prompt, report, call.response)
        return summary, prompt, report

    def _read_prompt(self, call: RecordedCall) -> Prompt | None:
        if call.request is None:
            return None
        entry, read = call.entry, call.read_request
        if read is None:
            read = self._requests.read(call.request, entry.session_id, entry.agent_id)
        if read.prompt is None or (entry.message_id or "").startswith(_OTHER_UPSTREAMS):
            return read.prompt
        return read.prompt.without_attribution()


def _summarize_alone(call: RecordedCall) -> CallSummary:
    """Return the summary of a call without its prompt."""
    return summarize_call(call.entry, call.usage, None)


def _has_named(candidates: Sequence[CallSummary], call: CallSummary) -> bool:
    """Return whether the call that the request of ``call`` names is among the candidates."""
    return any(each.message_id == call.previous_message_id for each in candidates)


def _name_failed_tools(before: CallSummary, prompt: Prompt | None) -> str | None:
    """Return the names of tools that failed since the call before, joined by commas."""
    if prompt is None or before.prompt is None:
        return None
    names = list_failed_tools(prompt, before.prompt.messages)
    return clean_text(", ".join(names), MAX_NAMES_CHARS)


def _list_results(
    before: CallSummary, call: RecordedCall, prompt: Prompt | None
) -> Sequence[UseResult]:
    """Return the results of the uses of tools in the response of the call before."""
    if prompt is not None:
        known = before.prompt
        return list_results(prompt, known.messages) if known is not None else ()
    answer, results = call.tool_results
    if answer is None:
        return results if call.entry.thread == "continue" else ()
    return results if answer == before.message_count else ()


def _as_stored(found: CacheBreak) -> cache_breaks.CacheBreak:
    values = {name: getattr(found, name) for name in _STORED if hasattr(found, name)}
    return cache_breaks.CacheBreak(
        **values
        | {
            "previous_entry_id": found.predecessor_entry_id,
            "estimated": found.is_estimated,
            "extra_cost_cents": to_real(found.extra_cost_cents),
            "upstream_reason": keep_plain_name(found.upstream_reason),
        }
    )
