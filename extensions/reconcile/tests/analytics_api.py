"""Upstream's analytics reports of usage and cost, built from the shapes that the vendor's SDK has.

    with AnalyticsApi() as api:
        api.use("2026-01-02", "claude-opus-5-5", input=100, product="messages_api")
        api.charge("2026-01-02", "claude-opus-5-5", "10", list_cents="12.5")

It has the server, the checks of the key and ``instead`` of ``AdminApi``. A page has ``page_rows`` rows at
most. What a client may not send is refused with 400, and the reason is kept in ``faults``.
"""

from datetime import date, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from extensions.reconcile.tests.admin_api import ADMIN_KEY, AdminApi, RefusedError
from tests.upstream import SeenRequest

BETA = "analytics-usage-cost-2026-08-24"
# It has the scope read:analytics, and begins as keys for calls do.
ANALYTICS_KEY = "sk-ant-api01-made-up-for-tests_0123456789"
USAGE, COST = "/v1/organizations/analytics/usage", "/v1/organizations/analytics/cost"
_NOT_COUNTED = {"cost_type", "token_type"}


class AnalyticsApi(AdminApi):
    def __init__(self) -> None:
        super().__init__()
        self.page_rows = 1000
        self.refreshed_at: str | None = "2026-02-01T00:00:00Z"
        self._rows: dict[str, list[dict[str, Any]]] = {USAGE: [], COST: []}

    def use(  # type: ignore[override]  # other dimensions than the older report
        self,
        day: str,
        model: str,
        *,
        input: int = 0,
        output: int = 0,
        searches: int = 0,
        requests: int = 1,
        product: str | None = "messages_api",
        tier: str = "standard",
        key: str | None = "apikey_01",
    ) -> None:
        """Add usage of a day."""
        group = {"model": model, "service_tier": tier, "product": product, "api_key_id": key}
        metrics = {
            "uncached_input_tokens": input,
            "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
            "cache_read_input_tokens": 0,
            "output_tokens": output,
            "server_tool_use": {"web_search_requests": searches},
            "total_tokens": input + output,
            "requests": requests,
        }
        self._add(USAGE, day, group, usage=metrics)

    def charge(  # type: ignore[override]  # other dimensions than the older report
        self,
        day: str,
        model: str | None,
        cents: str,
        *,
        list_cents: str | None = None,
        kind: str = "tokens",
        product: str | None = "messages_api",
        tier: str = "standard",
    ) -> None:
        """Add a cost of a day. Without ``list_cents`` there is no discount."""
        group = {"model": model, "service_tier": tier, "product": product, "cost_type": kind}
        amounts = {"amount": cents, "list_amount": list_cents or cents, "currency": "USD"}
        self._add(COST, day, group, cost=amounts | {"requests": None})

    def _add(self, path: str, day: str, group: dict[str, Any], **metrics: dict[str, Any]) -> None:
        bounds = {
            "starting_at": f"{day}T00:00:00Z",
            "ending_at": f"{date.fromisoformat(day) + timedelta(days=1)}T00:00:00Z",
        }
        self._rows[path].append(bounds | {"group": group | {"workspace_id": "wrkspc_01"}} | metrics)

    def _report(self, request: SeenRequest) -> dict[str, Any]:
        target = urlsplit(request.target)
        if target.path not in self._rows:
            return super()._report(request)
        if request.header("x-api-key") not in (ADMIN_KEY, ANALYTICS_KEY):
            raise PermissionError("invalid x-api-key")
        if request.header("anthropic-beta") != BETA:
            raise RefusedError("the header anthropic-beta does not name this beta")
        query = parse_qs(target.query, strict_parsing=True)
        groups = query.pop("group_by[]")
        if len(set(groups) - _NOT_COUNTED) > 5:
            raise RefusedError(f"too many groups: {groups}")
        given = {name: values[0] for name, values in query.items()}
        first, end = (date.fromisoformat(given[name][:10]) for name in ("starting_at", "ending_at"))
        if not 0 < (end - first).days <= 31 or given["time_bucket_width"] != "1d":
            raise RefusedError(f"a period that is refused: {given}")
        limit = int(given["limit"])
        if not 1 <= limit <= 1000:
            raise RefusedError(f"limit: {limit}")
        rows = [
            row | {"group": {name: row["group"].get(name) for name in groups}}
            for row in self._rows[target.path]
            if first <= date.fromisoformat(row["starting_at"][:10]) < end
        ]
        start = int(given.get("page", "0"))
        stop = start + min(limit, self.page_rows)
        return {
            "data": rows[start:stop],
            "has_more": stop < len(rows),
            "next_page": str(stop) if stop < len(rows) else None,
            "data_refreshed_at": self.refreshed_at,
        }
