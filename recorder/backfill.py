"""Reading calls again that were stored before there were columns for what their bodies say.

The recorder does this between its rounds, while it would wait anyway, and a little at a time: calls that
end meanwhile are recorded as soon as before, and nobody waits long for the write lock. While calls wait it
takes one step each second.
"""

import logging
import sqlite3
from collections.abc import Callable
from typing import Any

from metering.conversation_memory import ConversationMemory
from metering.prices import PriceTable
from metering.request_facts import make_facts
from metering.usage import Usage
from recorder.background import BackgroundWork
from recorder.body_fields import calculate_speed, make_request_fields, make_response_fields
from recorder.late_estimates import LateEstimates
from recorder.late_judgements import LateJudgements
from recorder.open_databases import OpenDatabases
from recorder.rebilling import find_corrected_cost
from recorder.requests import RequestReader
from recorder.stored_calls import read_stored_usage
from store.traces import backfill, backfill_progress, daily_sums, rebooking
from store.traces.backfill import Filled, Stored
from store.traces.backfill_progress import BODY_FIELDS
from store.traces.sessions import agent_sums, session_sums
from store.traces.sums import timings

logger = logging.getLogger(__name__)

STEP_S = 0.02
MEMORY_BYTES = 8 * 1024 * 1024
_SUMS = (
    rebooking.rebook_some,
    daily_sums.add_day,
    session_sums.book_some,
    agent_sums.book_some,
    timings.add_some,
)


class Backfill:
    """Does the work that new versions bring for stored calls.

    It fills columns, corrects costs, estimates streams that were cut, and looks for cache breaks.
    It takes one organisation after the other, and the newest calls first, except for cache breaks."""

    def __init__(
        self,
        databases: OpenDatabases,
        prices: Callable[[], PriceTable],
        clock_s: Callable[[], float],
    ) -> None:
        """Fill columns in these databases. ``clock_s`` is a monotonic clock."""
        failure = "New columns of %s cannot be filled now: %s"
        self._work = BackgroundWork(databases, clock_s, self._fill_some, failure, alternates=False)
        self._prices = prices
        self._clock_s = clock_s
        self._requests = RequestReader(ConversationMemory(MEMORY_BYTES))
        self._estimates = LateEstimates(prices, clock_s)
        self._judgements = LateJudgements(prices, clock_s)

    def begin(self, organization_id: str) -> None:
        """Take up the work on an organisation."""
        self._work.begin(organization_id)

    def run_step(self) -> bool:
        """Fill the columns of a few calls. Return whether there is more to do. Never raises."""
        return self._work.run_step()

    def _fill_some(self, organization_id: str, connection: sqlite3.Connection) -> bool:
        """Do some of the work; return whether there is more. The sums come first, because they take less
        time."""
        ends_at_s = self._clock_s() + STEP_S
        for work in _SUMS:
            while work(connection):
                if self._clock_s() >= ends_at_s:
                    return True
        is_done = (
            self._fill_columns(connection, ends_at_s)
            and self._estimates.estimate_some(organization_id, connection, ends_at_s)
            and self._judgements.judge_some(organization_id, connection, ends_at_s)
        )
        return not is_done

    def _fill_columns(self, connection: sqlite3.Connection, ends_at_s: float) -> bool:
        """Fill the columns of some calls; return whether those were the last ones."""
        next_id = backfill_progress.find_next(connection, BODY_FIELDS)
        if next_id is None:
            return True
        filled: list[Filled] = []
        while True:
            found = backfill.read_call(connection, next_id)
            if found is None:
                break
            filled.append(self._fill(found))
            next_id = found.call.id - 1
            if self._clock_s() >= ends_at_s:
                break
        backfill.write_filled(connection, filled, None if found is None else next_id)
        return found is None

    def _fill(self, stored: Stored) -> Filled:
        """Return what to write of a call, nothing where its bodies cannot be read."""
        try:
            return self._read_bodies(stored)
        except Exception:
            # It stays as it is: one call must not keep the others from being read.
            logger.exception("New columns of call %s cannot be filled", stored.call.id)
            return Filled(call=stored.call, columns={})

    def _read_bodies(self, stored: Stored) -> Filled:
        call, bodies = stored.call, stored.bodies
        columns: dict[str, Any] = {}
        usage = Usage(streamed=bool(call.streamed))
        if bodies.request is not None:
            fields = self._requests.read(bodies.request, call.session_id, call.agent_id)
            columns |= make_request_fields(make_facts(fields))
        if bodies.response is not None:
            usage = read_stored_usage(call, bodies.response, columns.get("cache_ttl"))
            columns |= make_response_fields(usage)
        columns["output_tokens_per_s"] = calculate_speed(
            streamed=bool(call.streamed),
            source=call.usage_source,
            output_tokens=call.output_tokens,
            duration_ms=call.duration_ms,
            ttfb_ms=call.ttfb_ms,
        )
        cost = find_corrected_cost(stored, usage, self._prices())
        return Filled(call=call, columns=columns, cost=cost)
