"""Upstream's Admin API as far as its usage and cost reports go, built from the documented shapes.

    with AdminApi() as api:
        api.use("2026-01-02", "claude-opus-5-5", input=100, output=50)
        api.charge("2026-01-02", "claude-opus-5-5", "12.5")
        ...  # GET api.url + "/v1/organizations/usage_report/messages?starting_at=…"

It groups and pages as documented: a dimension that is not grouped by is null, a page has at most
``limit`` buckets of a day, each day has a bucket, and one without usage has an empty list. What a client
may not send is refused with 400, and the reason is kept in ``faults``. ``page_days`` makes pages smaller
than the client asked for. ``api.server`` is the scripted upstream, for answers of every other kind.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.upstream import Script, SeenRequest, Upstream, answer, error_json

ADMIN_KEY = "sk-ant-admin01-made-up-for-tests_0123456789"
ORGANIZATION = "9c1d3b1e-0000-4000-8000-00000000abcd"
USAGE, COST = "/v1/organizations/usage_report/messages", "/v1/organizations/cost_report"
_USAGE_GROUPS = (
    "api_key_id",
    "workspace_id",
    "model",
    "service_tier",
    "context_window",
    "inference_geo",
)
_COST_FIELDS = ("model", "cost_type", "service_tier", "token_type", "context_window")
_JSON = ("content-type", "application/json")
_DAY = timedelta(days=1)


class RefusedError(Exception):
    """The request is not one that the reference allows."""


class AdminApi:
    def __init__(self) -> None:
        self.server = Upstream()
        self.server.choose = self._answer
        self.organization_id: str | None = ORGANIZATION
        self.page_days = 31
        self.faults: list[str] = []
        self.instead: list[Script] = []
        self._usage: dict[date, list[dict[str, Any]]] = defaultdict(list)
        self._costs: dict[date, list[dict[str, Any]]] = defaultdict(list)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def requests(self) -> list[SeenRequest]:
        return self.server.requests

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.server.__exit__(*exception)

    def use(
        self,
        day: str,
        model: str,
        *,
        input: int = 0,
        output: int = 0,
        read: int = 0,
        write_5m: int = 0,
        write_1h: int = 0,
        searches: int = 0,
        tier: str = "standard",
        workspace: str | None = None,
        key: str | None = "apikey_01",
    ) -> None:
        """Add usage of a day."""
        self._usage[date.fromisoformat(day)].append(
            {
                "api_key_id": key,
                "workspace_id": workspace,
                "model": model,
                "service_tier": tier,
                "context_window": "0-200k",
                "inference_geo": "global",
                "uncached_input_tokens": input,
                "cache_creation": {
                    "ephemeral_1h_input_tokens": write_1h,
                    "ephemeral_5m_input_tokens": write_5m,
                },
                "cache_read_input_tokens": read,
                "output_tokens": output,
                "server_tool_use": {"web_search_requests": searches},
            }
        )

    def charge(
        self,
        day: str,
        model: str | None,
        cents: str,
        *,
        kind: str = "tokens",
        token_type: str = "output_tokens",  # noqa: S107 - of the model
        tier: str = "standard",
        workspace: str | None = None,
    ) -> None:
        """Add a cost of a day; one of another kind than tokens has no model, tier or token type."""
        is_tokens = kind == "tokens"
        self._costs[date.fromisoformat(day)].append(
            {
                "amount": cents,
                "currency": "USD",
                "cost_type": kind,
                "description": f"{model} Usage - {token_type}" if is_tokens else f"{kind} Usage",
                "model": model if is_tokens else None,
                "service_tier": tier if is_tokens else None,
                "token_type": token_type if is_tokens else None,
                "context_window": "0-200k" if is_tokens else None,
                "workspace_id": workspace,
            }
        )

    def _answer(self, request: SeenRequest) -> Script:
        if self.instead:
            return self.instead.pop(0)
        try:
            document = self._report(request)
        except RefusedError as error:
            self.faults.append(str(error))
            return answer(400, error_json("invalid_request_error", str(error)))
        except PermissionError as error:
            return answer(401, error_json("authentication_error", str(error)))
        named = [] if self.organization_id is None else [self.organization_id]
        headers = [_JSON, *(("anthropic-organization-id", each) for each in named)]
        return answer(200, json.dumps(document).encode(), headers)

    def _report(self, request: SeenRequest) -> dict[str, Any]:
        if request.header("x-api-key") != ADMIN_KEY:
            raise PermissionError("invalid x-api-key")
        if request.method != "GET" or not request.header("anthropic-version"):
            raise RefusedError("a GET with the header anthropic-version is wanted")
        target = urlsplit(request.target)
        query = parse_qs(target.query, strict_parsing=True)
        groups = query.pop("group_by[]", [])
        given = {name: values[0] for name, values in query.items() if len(values) == 1}
        if given.keys() != query.keys():
            raise RefusedError(f"parameters that came twice: {target.query}")
        if target.path == USAGE:
            allowed: Sequence[str] = _USAGE_GROUPS
        elif target.path == COST:
            allowed = ("workspace_id", "description")
        else:
            raise RefusedError(f"there is no {target.path}")
        if not set(groups) <= set(allowed):
            raise RefusedError(f"groups: {groups}")
        days, next_page = self._find_days(given)
        is_usage = target.path == USAGE
        return {
            "data": [
                {
                    "starting_at": f"{day}T00:00:00Z",
                    "ending_at": f"{day + _DAY}T00:00:00Z",
                    "results": self._sum_usage(day, groups)
                    if is_usage
                    else self._sum_costs(day, groups),
                }
                for day in days
            ],
            "has_more": next_page is not None,
            "next_page": next_page,
        }

    def _find_days(self, given: dict[str, str]) -> tuple[list[date], str | None]:
        """The days of one page, and the token of the next."""
        unknown = given.keys() - {"starting_at", "ending_at", "bucket_width", "limit", "page"}
        if unknown or given.get("bucket_width", "1d") != "1d":
            raise RefusedError(f"unknown parameters: {unknown or given}")
        limit = int(given.get("limit", "7"))
        if not 1 <= limit <= 31:
            raise RefusedError(f"limit: {limit}")
        first = _parse(given["starting_at"])
        end = _parse(given["ending_at"])
        if end <= first:
            raise RefusedError("ending_at must be after starting_at")
        days = [first + _DAY * number for number in range((end - first).days)]
        start = int(given["page"].removeprefix("page_")) if "page" in given else 0
        stop = start + min(limit, self.page_days)
        return days[start:stop], f"page_{stop}" if stop < len(days) else None

    def _sum_usage(self, day: date, groups: list[str]) -> list[dict[str, Any]]:
        sums: dict[tuple[Any, ...], dict[str, Any]] = {}
        for item in self._usage[day]:
            shown = {name: item[name] if name in groups else None for name in _USAGE_GROUPS}
            counts = {name: value for name, value in item.items() if name not in _USAGE_GROUPS}
            key = tuple(shown.values())
            sums[key] = shown | (_add(sums[key], counts) if key in sums else counts)
        return list(sums.values())

    def _sum_costs(self, day: date, groups: list[str]) -> list[dict[str, Any]]:
        sums: dict[tuple[Any, ...], dict[str, Any]] = {}
        for item in self._costs[day]:
            described = "description" in groups
            shown = {
                name: item[name] if described else None for name in (*_COST_FIELDS, "description")
            }
            shown["workspace_id"] = item["workspace_id"] if "workspace_id" in groups else None
            key = tuple(shown.values())
            before = Decimal(sums[key]["amount"]) if key in sums else Decimal(0)
            amount = str(before + Decimal(item["amount"]))
            sums[key] = shown | {"amount": amount, "currency": item["currency"]}
        return list(sums.values())


def _parse(text: str) -> date:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise RefusedError(f"no offset: {text}")
    return instant.astimezone(UTC).date()


def _add(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _add(one[name], value) if isinstance(value, dict) else one[name] + value
        for name, value in other.items()
    }
