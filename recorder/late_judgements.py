"""Judging calls that were recorded before there were judgements, oldest first.

A judgement depends on the calls before it, so this work goes the other way than all others: bodies that
retention will take next are read first.
"""

import sqlite3
from collections.abc import Callable

from metering.conversation_memory import ConversationMemory
from metering.prices import PriceTable
from recorder import recorded_calls
from recorder.judge import Judge
from store.traces.backfill_progress import JUDGED_UP_TO, find_next
from store.traces.calls import judgements
from store.traces.calls.judgements import Judgement

MEMORY_BYTES = 8 * 1024 * 1024


class LateJudgements:
    """Judges stored calls, of one organisation at a time."""

    def __init__(self, prices: Callable[[], PriceTable], clock_s: Callable[[], float]) -> None:
        """Judge by these prices. ``clock_s`` is a monotonic clock."""
        self._judge = Judge(prices, ConversationMemory(MEMORY_BYTES), MEMORY_BYTES)
        self._clock_s = clock_s

    def judge_some(
        self, organization_id: str, connection: sqlite3.Connection, ends_at_s: float
    ) -> bool:
        """Judge some of the calls; return whether those were the last ones. Raises sqlite3.Error."""
        up_to_id = find_next(connection, JUDGED_UP_TO)
        if up_to_id is None:
            return True
        found: dict[str, Judgement] = {}
        self._judge.forget_batch()
        while (next_id := judgements.find_unjudged(connection, up_to_id)) is not None:
            call = recorded_calls.read_by_id(connection, next_id)
            if call is not None:  # retention may remove it meanwhile
                judged = self._judge.judge(organization_id, call, lambda: connection)
                found |= {each.entry_id: each for each in judged}
            up_to_id = next_id
            if self._clock_s() >= ends_at_s:
                break
        is_done = next_id is None
        judgements.write_past(connection, list(found.values()), None if is_done else up_to_id)
        return is_done
