"""Counts of the requests that rate limits and budgets refused, which are written to the spool."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from addon.destination import Destination
from runtime import clock
from store.control.database import ProxyEndpoint
from store.spool.format import BUDGET_BUCKET, Rejection


class RejectionCounts:
    """Counts refused requests by endpoint, kind of request and hour, since the counts were last written."""

    def __init__(self) -> None:
        self._counts: Counter[Rejection] = Counter()

    def count(self, endpoint: ProxyEndpoint, destination: Destination) -> None:
        """Count one request refused by the rate limit, in the current hour."""
        self._count(endpoint, destination.value)

    def count_over_budget(self, endpoint: ProxyEndpoint) -> None:
        """Count one request refused by a budget, in the current hour."""
        self._count(endpoint, BUDGET_BUCKET)

    def _count(self, endpoint: ProxyEndpoint, bucket: str) -> None:
        one = Rejection(
            organization_id=endpoint.organization_id,
            proxy_endpoint_id=endpoint.id,
            slug=endpoint.slug,
            bucket=bucket,
            hour=clock.format_ms(clock.now())[:13],
            count=1,
        )
        self._counts[one] += 1

    def flush(self, write: Callable[[Sequence[Rejection]], None]) -> None:
        """Pass the counts to ``write``, if there are any, and reset them.

        They are kept if ``write`` raises, and its exception is passed on."""
        if self._counts:
            write([replace(one, count=count) for one, count in self._counts.items()])
            self._counts.clear()
