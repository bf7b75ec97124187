"""Upstream's analytics reports: usage and cost by product, with list prices beside what is charged.

They are a beta of 2026-10-29, which the vendor recommends over the reports of ``shapes.py``. Their shapes
are those of the vendor's SDK (``anthropic`` 2.11.0, ``types/beta/organization/analytics``), looked up
2026-11-23; ``extensions/reconcile/tests/test_analytics.py`` compares them with the SDK that is locked:

- ``GET /v1/organizations/analytics/usage`` and ``…/cost``, with a header that names the beta: one row for
  each combination of at most 5 ``group_by[]`` and a bucket of time (``time_bucket_width=1d``) that has
  usage or cost. A period has at most 31 days, of the last 365 and from 2026-01-01 on.
- A page has 20 rows unless ``limit`` says another number up to 1,000. Of costs, ``cost_type`` is a group
  that counts neither among the five nor as rows of a page.
- ``amount`` is what is charged, after discounts and before credits, and ``list_amount`` the list price,
  both in cents. ``requests`` is null in rows by ``cost_type``.
- ``product`` is null for usage without a known product. The default workspace has an id here.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Literal

from extensions.reconcile.admin_api import AdminApi, Parameters
from extensions.reconcile.comparison import TOKENS, Figures, Reported
from extensions.reconcile.reports import Reports, format_start
from extensions.reconcile.shapes import (
    AnyPage,
    Cents,
    Count,
    Group,
    Instant,
    Shape,
    UsageCounts,
)

BETA = "analytics-usage-cost-2026-08-24"
USAGE_PATH = "/v1/organizations/analytics/usage"
USAGE_GROUPS = ("model", "workspace_id", "api_key_id", "service_tier", "product")
COST_PATH = "/v1/organizations/analytics/cost"
COST_GROUPS = ("model", "workspace_id", "service_tier", "product", "cost_type")
_ROWS_A_PAGE = 1000  # the most that upstream allows
_MAX_PAGES = 300  # of 31 days: far more rows than days, models, workspaces, keys and products make
_MAX_DAYS = 31


class UsageMetrics(UsageCounts):
    requests: Count | None = None


class CostMetrics(Shape):
    amount: Cents
    list_amount: Cents
    currency: Literal["USD"]


class _Row(Shape):
    starting_at: Instant
    group: Group

    @property
    def day(self) -> date:
        return self.starting_at.date()


class UsageRow(_Row):
    usage: UsageMetrics

    def to_reported(self) -> Iterator[Reported]:
        """Yield the counts as items to compare. The number of requests is in the item with the tokens."""
        for kind, figures in self.usage.to_figures():
            requests = self.usage.requests or 0 if kind == TOKENS else 0
            yield self.group.report(self.day, kind, figures, requests=requests)


class CostRow(_Row):
    cost: CostMetrics

    def to_reported(self) -> Iterator[Reported]:
        """Yield the cost with its discount as an item to compare."""
        discount = self.cost.list_amount - self.cost.amount
        figures = Figures(cost_cents=self.cost.amount, discount_cents=discount)
        kind = self.group.cost_type or (TOKENS if self.group.model else "other")
        yield self.group.report(self.day, kind, figures)


class RowPage[Row: (UsageRow, CostRow)](AnyPage):
    data: tuple[Row, ...]
    data_refreshed_at: Instant | None = None


def fetch_analytics(api: AdminApi, from_day: date, to_day: date) -> Reports:
    """Fetch the usage and cost reports; both days are included. Raises ReportError."""
    items: list[Reported] = []
    refreshed: list[datetime] = []
    pages: Iterator[RowPage[UsageRow] | RowPage[CostRow]] = chain(
        _fetch(api, USAGE_PATH, USAGE_GROUPS, RowPage[UsageRow], from_day, to_day),
        _fetch(api, COST_PATH, COST_GROUPS, RowPage[CostRow], from_day, to_day),
    )
    for page in pages:
        refreshed += [] if page.data_refreshed_at is None else [page.data_refreshed_at]
        for row in page.data:
            if from_day <= row.day <= to_day:
                items += row.to_reported()
    return Reports(
        items=tuple(items),
        missing_days=0,  # a day without usage has no rows
        organization_id=api.organization_id,
        refreshed_at=min(refreshed, default=None),
    )


def _fetch[Row: (UsageRow, CostRow)](
    api: AdminApi,
    path: str,
    groups: tuple[str, ...],
    page_type: type[RowPage[Row]],
    from_day: date,
    to_day: date,
) -> Iterator[RowPage[Row]]:
    """Yield the pages of a report, split into periods that upstream accepts."""
    while from_day <= to_day:
        end = min(from_day + timedelta(days=_MAX_DAYS), to_day + timedelta(days=1))
        parameters: Parameters = {
            "starting_at": format_start(from_day),
            "ending_at": format_start(end),
            "time_bucket_width": "1d",
            "order_by": "time",
            "group_by[]": list(groups),
            "limit": _ROWS_A_PAGE,
        }
        yield from api.iter_pages(path, parameters, page_type, _MAX_PAGES)
        from_day = end
