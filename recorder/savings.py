"""The search for savings in sessions, in the background and one session at a time.

A session is analysed when none of its calls has been stored for some seconds, or after a number of
calls, in one go: the columns of its calls, and one body of each of its conversations. This takes
longer the longer the session is, so the pause after it is a multiple of the time that it took."""

import logging
import sqlite3
from collections.abc import Callable

from conversations.savings.calls import list_chains
from conversations.savings.findings import METHOD, Finding, find_savings
from conversations.savings.kinds import AVOIDABLE, FROM_BODIES
from conversations.savings.tool_costs import ToolCost, cost_tools
from metering.prices import PriceTable
from recorder.background import RETRY_S, BackgroundWork
from recorder.open_databases import OpenDatabases
from recorder.savings_calls import read_calls, read_contents_of
from runtime import clock
from store import database
from store.traces.savings import savings, tool_sums
from store.traces.savings.savings import Due, FindingRow, Looked
from store.traces.savings.tool_sums import Target, ToolSums

# Looks take less than a fiftieth of the recorder's time.
MIN_PAUSE_S, PAUSE_FACTOR = 0.02, 50.0

logger = logging.getLogger(__name__)


class SavingsFinder(BackgroundWork):
    """The analysis of sessions that are due, for all organisations with calls."""

    def __init__(
        self,
        databases: OpenDatabases,
        prices: Callable[[], PriceTable],
        clock_s: Callable[[], float],
    ) -> None:
        """Analyse in these databases, by these prices. ``clock_s`` is a monotonic clock in seconds."""
        failure = "Savings of %s cannot be looked for now: %s"
        super().__init__(databases, clock_s, self._look_and_pause, failure)
        self._prices = prices
        self._not_before_s = 0.0

    def run_step(self) -> bool:
        """Analyse one session if it is due and the pause is over. Return whether any is left.

        Never raises."""
        if self._clock_s() < self._not_before_s:
            return True
        return super().run_step()

    def _look_and_pause(self, _organization_id: str, connection: sqlite3.Connection) -> bool:
        began_s = self._clock_s()
        has_more = self._look_at_one(connection)
        ended_s = self._clock_s()
        self._not_before_s = ended_s + max(MIN_PAUSE_S, PAUSE_FACTOR * (ended_s - began_s))
        return has_more

    def _look_at_one(self, connection: sqlite3.Connection) -> bool:
        """Analyse the session that has been due for longest; return whether any is left, due or not."""
        due = savings.find_due(connection, clock.now().timestamp())
        if due is None:
            return savings.is_any_due(connection)
        try:
            self._look(connection, due)
        except sqlite3.Error:
            raise
        except Exception:
            # It keeps the findings that it has: one session must not keep the others from being looked at.
            logger.exception("Savings of session %r cannot be computed", due.session_id)
            with database.immediate(connection):
                savings.drop_due(connection, due, clock.now().timestamp() + RETRY_S)
        return True

    def _look(self, connection: sqlite3.Connection, due: Due) -> None:
        with database.snapshot(connection):
            calls = read_calls(connection, due.session_id, self._prices())
            chains = list_chains(calls)
            contents = read_contents_of(connection, chains)
            tools = tool_sums.read_uses(connection, due.session_id)
            payers = tool_sums.read_payers(connection, due.session_id)
        costs = cost_tools(chains, contents, lambda call: payers[call.id])
        for (payer, used), cost in costs.items():
            tools.setdefault((payer, Target(*used)), ToolSums()).add(_make_sums(cost))
        now = clock.now()
        savings.write_findings(
            connection,
            due,
            [_make_row(finding) for finding in find_savings(calls, contents)],
            Looked(
                method=METHOD,
                computed_at=clock.format_ms(now),
                calls=len(calls),
                conversations=len(chains),
                opened=len(contents),
            ),
            first_day=min((call.day for call in calls), default=""),
            keeps=() if contents else FROM_BODIES,
            avoidable=AVOIDABLE,
            tools=tools,
            again_at=now.timestamp() + savings.QUIET_S,
        )


def _make_sums(cost: ToolCost) -> ToolSums:
    return ToolSums(
        definition_cents=float(cost.definition),
        written_cents=float(cost.written),
        carried_cents=float(cost.carried),
    )


def _make_row(finding: Finding) -> FindingRow:
    return FindingRow(
        day=finding.day,
        finding=finding.kind.name,
        subject=finding.subject,
        calls=finding.calls,
        tokens=finding.tokens,
        cents=float(finding.cents),
        unpriced_tokens=finding.unpriced,
        top=[(id_, None if cents is None else float(cents)) for id_, cents in finding.top],
    )
