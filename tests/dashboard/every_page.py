"""The addresses of all pages and reports about calls, for tests that read every one."""

from collections.abc import Iterator, Sequence
from itertools import chain

from runtime import extensions
from runtime.extension_values import PageLink


def list_added() -> list[PageLink]:
    """Return the links to the pages of extensions."""
    return [*chain(*extensions.call().page_links())]


def list_pages(call_ids: Sequence[int], session: str) -> Iterator[str]:
    """Yield the pages of an organisation, of this session, and of these calls."""
    yield from (
        "/",
        "/?period=90d&measure=tokens",
        "/savings/models",
        "/savings/models.json",
        "/overview.json?span=90d",
        "/sessions",
        "/sessions.json",
        "/search?q=the",
        "/search.json?q=the",
        "/savings?span=90d",
        "/savings.json?span=90d",
        "/tools?period=90d",
        "/tools.json?period=90d",
        "/limits.json",
        "/settings/endpoints",
        "/settings/budgets",
        "/settings/budgets/part",
        "/settings/budgets/alert",
        "/settings/data",
        "/settings/people",
        "/settings/security",
        *(each.address for each in list_added()),
        "/traces",
        "/traces/usage",
        "/traces/usage.json",
        "/traces/usage?_sum_by=model&_facet=model",
        "/traces/usage_log",
        "/traces/usage_log.csv",
        "/traces/usage_cost",
        "/traces/usage_hourly",
        "/traces/cache_breaks",
        "/traces/cost_by_day_and_model?days=36000",
        "/traces/cost_by_session?days=36000",
        "/api/usage?by=day&from=2026-11-01&to=2026-11-30",
        "/api/usage?by=credential&from=2026-11-01&to=2026-11-30",
        f"/sessions/{session}",
        f"/sessions/{session}.json",
        f"/sessions/{session}/context",
        f"/sessions/{session}/savings",
        f"/sessions/{session}/tools",
        f"/sessions/{session}/calls",
        f"/sessions/{session}/export.html",
    )
    for call_id in call_ids:
        call = f"/traces/usage/{call_id}"
        page = f"/calls/{call_id}"
        yield from (
            page,
            f"{page}/cost",
            f"{page}/raw",
            f"{page}/details",
            f"{call}.json",
            f"{call}/context",
            f"{call}/request",
            f"{call}/response",
            f"{call}/request/read",
            f"{call}/response/raw",
            f"/traces/usage_log/{call_id}.json",
        )
    yield f"/traces/usage/{call_ids[0]}/compare/{call_ids[-1]}"
