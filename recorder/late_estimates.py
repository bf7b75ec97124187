"""Estimating streams that were cut, and recorded before there were estimates.

Their bodies are read again, newest first, and estimated as those are that are recorded now. Where the
recorder has measured no response of a model yet, the newest stored ones are measured for it.
"""

import logging
import sqlite3
from collections.abc import Callable
from functools import partial

from metering.body_notes import lacks_response
from metering.cut_streams import FindSize, estimate_usage
from metering.delivered import UNKNOWN_SIZE, OutputSize
from metering.output_estimate import is_estimable, measure_output
from metering.prices import PriceTable
from recorder.stored_calls import price_again, read_stored_usage
from store.traces import backfill_progress, cut_streams
from store.traces.backfill import Stored
from store.traces.backfill_progress import CUT_STREAMS
from store.traces.calls.costs import NewCost
from store.traces.sums import output_sizes

logger = logging.getLogger(__name__)

MEASURED_CALLS = 10


class LateEstimates:
    """Estimates the streams that were cut, of one organisation at a time."""

    def __init__(self, prices: Callable[[], PriceTable], clock_s: Callable[[], float]) -> None:
        """Estimate by these prices. ``clock_s`` is a monotonic clock."""
        self._prices = prices
        self._clock_s = clock_s
        self._measured: dict[tuple[str, str], OutputSize] = {}

    def estimate_some(
        self, organization_id: str, connection: sqlite3.Connection, ends_at_s: float
    ) -> bool:
        """Estimate some of the streams; return whether those were the last ones. Raises sqlite3.Error."""
        next_id = backfill_progress.find_next(connection, CUT_STREAMS)
        if next_id is None:
            return True
        find_size = partial(self._find_size, organization_id, connection)
        estimates: list[NewCost] = []
        while next_id is not None:
            found, next_id = cut_streams.read_window(connection, next_id)
            estimate = None if found is None else self._estimate(found, find_size)
            if estimate is not None:
                estimates.append(estimate)
            if self._clock_s() >= ends_at_s:
                break
        cut_streams.write_estimates(connection, estimates, next_id)
        return next_id is None

    def _estimate(self, stored: Stored, find_size: FindSize) -> NewCost | None:
        try:
            return estimate_stored(stored, find_size, self._prices())
        except sqlite3.Error:
            raise
        except Exception:
            # It stays as it is: one call must not keep the others from being estimated.
            logger.exception("Call %s cannot be estimated", stored.call.id)
            return None

    def _find_size(
        self, organization_id: str, connection: sqlite3.Connection, model: str | None
    ) -> OutputSize:
        size = output_sizes.read_size(connection, model)
        if size != UNKNOWN_SIZE or model is None:
            return size
        key = organization_id, model
        if key not in self._measured:
            self._measured[key] = _measure_stored(connection, model)
        return self._measured[key]


def estimate_stored(stored: Stored, find_size: FindSize, prices: PriceTable) -> NewCost | None:
    """Return the cost of a stored call with an estimate of what its stream had delivered.

    Returns None where nothing is to be estimated or the response is not all that came, and where a known
    cost would be lost for want of a price."""
    call, response = stored.call, stored.bodies.response
    if call.usage_source != "partial" or response is None or lacks_response(call.body_notes):
        return None
    usage = read_stored_usage(call, response, call.cache_ttl)
    if not is_estimable(usage):
        return None
    usage = estimate_usage(usage, response, find_size, stored.bodies.request or b"")
    bill = price_again(call, usage, prices)
    if bill is None:
        return None
    items, cents = bill
    return NewCost(
        usage_id=call.id,
        cost_cents=cents,
        cost_items=items,
        output_tokens=usage.tokens.output_tokens,
    )


def _measure_stored(connection: sqlite3.Connection, model: str) -> OutputSize:
    """Return the sums of the newest complete calls of a model, which are 0 where there are none."""
    total = UNKNOWN_SIZE
    for number in range(MEASURED_CALLS):
        stored = cut_streams.read_complete(connection, model, number)
        if stored is None:
            break
        call, response = stored.call, stored.bodies.response
        if response is not None:
            size = measure_output(read_stored_usage(call, response, call.cache_ttl), response)
            total = total if size is None else total + size
    return total
