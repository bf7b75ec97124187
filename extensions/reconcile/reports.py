"""Upstream's usage and cost reports of a period, as items to compare."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from extensions.reconcile import shapes
from extensions.reconcile.admin_api import AdminApi, Parameters
from extensions.reconcile.comparison import Reported
from extensions.reconcile.shapes import Bucket, CostItem, Page, UsageItem

_DAYS_A_PAGE = 31  # the most that upstream allows
_SPARE_PAGES = 10  # a page holds a day at least, so this many more than days do not come


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The usage and cost reports of a period.

    ``missing_days`` are days without any bucket in the usage report. ``organization_id`` is the
    upstream organisation of the key, None if upstream does not name it. ``refreshed_at`` is the time
    up to which the figures are complete, None if upstream does not say."""

    items: tuple[Reported, ...]
    missing_days: int
    organization_id: str | None
    refreshed_at: datetime | None = None


def fetch_reports(api: AdminApi, from_day: date, to_day: date) -> Reports:
    """Fetch the usage and cost reports; both days are included. Raises ReportError."""
    usage = _fetch(api, shapes.USAGE_PATH, shapes.USAGE_GROUPS, Page[UsageItem], from_day, to_day)
    costs = _fetch(api, shapes.COST_PATH, shapes.COST_GROUPS, Page[CostItem], from_day, to_day)
    days = (to_day - from_day).days + 1
    return Reports(
        items=(*_list_items(usage), *_list_items(costs)),
        missing_days=days - len({bucket.day for bucket in usage}),
        organization_id=api.organization_id,
    )


def format_start(day: date) -> str:
    """Return the beginning of a day in the format of requests for reports."""
    return f"{day.isoformat()}T00:00:00Z"


def _list_items[Item: (UsageItem, CostItem)](buckets: Iterable[Bucket[Item]]) -> Iterator[Reported]:
    for bucket in buckets:
        for item in bucket.results:
            yield from item.to_reported(bucket.day)


def _fetch[Item: (UsageItem, CostItem)](
    api: AdminApi,
    path: str,
    groups: tuple[str, ...],
    page_type: type[Page[Item]],
    from_day: date,
    to_day: date,
) -> list[Bucket[Item]]:
    """Return the buckets of a report, without buckets of other days than those requested."""
    parameters: Parameters = {
        "starting_at": format_start(from_day),
        "ending_at": format_start(to_day + timedelta(days=1)),
        "bucket_width": "1d",
        "group_by[]": list(groups),
        "limit": _DAYS_A_PAGE,
    }
    days = (to_day - from_day).days + 1
    return [
        bucket
        for page in api.iter_pages(path, parameters, page_type, days + _SPARE_PAGES)
        for bucket in page.data
        if from_day <= bucket.day <= to_day
    ]
