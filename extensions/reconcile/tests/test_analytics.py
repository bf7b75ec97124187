"""The analytics reports: their shapes beside those of the vendor's SDK, and what they explain."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import get_args

import pytest
from pydantic import BaseModel

from extensions.reconcile import analytics
from extensions.reconcile.admin_api import AdminApi
from extensions.reconcile.admin_key import ReportError
from extensions.reconcile.analytics import BETA, fetch_analytics
from extensions.reconcile.comparison import TOKENS, WEB_SEARCH, Recorded, compare
from extensions.reconcile.shapes import Group
from extensions.reconcile.tests import analytics_api
from extensions.reconcile.tests.admin_api import ADMIN_KEY, ORGANIZATION
from extensions.reconcile.tests.analytics_api import AnalyticsApi
from extensions.reconcile.tests.test_comparison import figures
from tests.lazily import import_lazily
from tests.upstream import answer

sdk = import_lazily("anthropic.types.beta.organization.analytics")
sdk_cost = import_lazily("anthropic.resources.beta.organization.analytics.cost")

DAY, FIRST, LAST = date(2026, 1, 2), date(2026, 1, 1), date(2026, 1, 3)


@pytest.fixture
def upstream():
    with AnalyticsApi() as upstream:
        yield upstream
    assert upstream.faults == []


@pytest.fixture
def fetch(upstream):
    def fetch(first=FIRST, last=LAST):
        with AdminApi(upstream.url, ADMIN_KEY, beta=BETA, is_local=True) as api:
            return fetch_analytics(api, first, last)

    return fetch


@pytest.fixture
def explain(fetch):
    def explain(*recorded):
        (row,) = compare(fetch().items, recorded, open_day=date(2026, 2, 1)).rows
        return [(cause.name, cause.product, cause.cost_cents) for cause in row.causes]

    return explain


def recorded(cents, **counts):
    return Recorded(day=DAY, kind=TOKENS, model="m", figures=figures(cents, **counts))


# -- shapes ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (analytics.UsageRow, "BetaAnalyticsUsageItem"),
        (analytics.UsageMetrics, "BetaAnalyticsUsageMetrics"),
        (analytics.CostRow, "BetaAnalyticsCostItem"),
        (analytics.CostMetrics, "BetaAnalyticsCostMetrics"),
        (Group, "BetaAnalyticsCostGroup"),
    ],
)
def test_the_fields_that_are_read_are_those_of_the_sdk(ours: type[BaseModel], theirs: str):
    assert set(ours.model_fields) <= set(getattr(sdk, theirs).model_fields)


@pytest.mark.slow
def test_the_groups_are_those_that_the_sdk_knows():
    assert set(analytics.USAGE_GROUPS) <= set(get_args(sdk.BetaAnalyticsUsageGroupBy))
    assert set(analytics.COST_GROUPS) <= set(get_args(sdk.BetaAnalyticsCostGroupBy))
    assert BETA in str(sdk_cost.Cost.list.__doc__)


def test_counts_costs_and_their_list_prices_are_read_with_their_product(upstream, fetch):
    upstream.use("2026-01-02", "m", input=10, output=20, requests=3)
    upstream.charge("2026-01-02", "m", "80", list_cents="100")
    upstream.charge("2026-01-02", None, "8", kind="session_usage", product="managed_agents_api")
    usage, cost, session = fetch().items
    assert (usage.day, usage.kind, usage.model, usage.product) == (DAY, TOKENS, "m", "messages_api")
    assert (usage.figures, usage.requests) == (figures(input_tokens=10, output_tokens=20), 3)
    assert (usage.workspace_id, usage.api_key_id) == ("wrkspc_01", "apikey_01")
    assert (cost.figures.cost_cents, cost.figures.list_cents) == (80, 100)
    assert (session.kind, session.product) == ("session_usage", "managed_agents_api")
    found = fetch()
    assert (found.organization_id, found.missing_days) == (ORGANIZATION, 0)
    assert found.refreshed_at == datetime(2026, 2, 1, tzinfo=UTC)


def test_web_searches_stand_apart_from_the_model_that_the_rows_name(upstream, fetch):
    upstream.use("2026-01-02", "m", input=1, searches=3, requests=2)
    upstream.charge("2026-01-02", "m", "3", kind="web_search")
    tokens, searches, cost = fetch().items
    assert (tokens.requests, searches.requests) == (2, 0)
    for each in (searches, cost):
        assert (each.kind, each.model) == (WEB_SEARCH, None)


def test_all_pages_of_periods_that_upstream_allows_are_read_and_nothing_twice(upstream, fetch):
    upstream.page_rows = 7
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(70)]
    for number, day in enumerate(days):
        upstream.use(day.isoformat(), "m", input=number + 1)
        upstream.charge(day.isoformat(), "m", "1")
    items = fetch(days[0], days[-1]).items
    assert [item.figures.tokens.input_tokens for item in items[:70]] == list(range(1, 71))
    assert [item.day for item in items[70:]] == days
    paths = [request.target.partition("?")[0] for request in upstream.requests]
    assert paths == [analytics_api.USAGE] * 12 + [analytics_api.COST] * 12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cost": {"amount": "1", "currency": "USD"}}, "data.0.cost.list_amount: Field required"),
        (
            {"cost": {"amount": "1", "list_amount": "x", "currency": "USD"}},
            "data.0.cost.list_amount",
        ),
        (
            {"cost": {"amount": "1", "list_amount": "1", "currency": "EUR"}},
            "data.0.cost.currency",
        ),
        ({"group": None}, "data.0.group"),
        ({"starting_at": "2026-01-02"}, "data.0.starting_at"),
    ],
)
def test_another_shape_than_the_documented_one_is_named(upstream, fetch, change, words):
    cost = {"amount": "1", "list_amount": "1", "currency": "USD"}
    row = {"starting_at": "2026-01-02T00:00:00Z", "group": {}, "cost": cost} | change
    page = {"data": [], "has_more": False, "next_page": None}
    upstream.instead = [
        answer(200, json.dumps(page | {"data": rows}).encode()) for rows in ([], [row])
    ]
    with pytest.raises(ReportError, match="not respond with a report as documented") as caught:
        fetch()
    assert words in str(caught.value)


def test_pages_without_an_end_are_an_error(upstream, fetch, monkeypatch):
    monkeypatch.setattr(analytics, "_MAX_PAGES", 3)
    upstream.page_rows = 1
    for _ in range(5):
        upstream.use("2026-01-02", "m", input=1)
    with pytest.raises(ReportError, match="a report without an end"):
        fetch()


# -- causes ---------------------------------------------------------------------------------------


def test_a_discount_is_told_from_a_mistake(upstream, explain):
    upstream.use("2026-01-02", "m", output=10)
    upstream.charge("2026-01-02", "m", "80", list_cents="100")
    assert explain(recorded("100", output_tokens=10)) == [("discount", None, 20)]
    assert explain(recorded("97", output_tokens=10)) == [
        ("discount", None, 20),
        ("prices", None, 3),
    ]


def test_a_discount_is_not_named_where_contract_prices_have_it_already(upstream, explain):
    upstream.use("2026-01-02", "m", output=10)
    upstream.charge("2026-01-02", "m", "80", list_cents="100")
    assert explain(recorded("80", output_tokens=10)) == []
    assert explain(recorded("82", output_tokens=10)) == [("prices", None, 2)]


def test_a_discount_is_named_beside_what_was_not_recorded(upstream, explain):
    upstream.use("2026-01-02", "m", output=20)
    upstream.charge("2026-01-02", "m", "80", list_cents="100")
    assert explain(recorded("50", output_tokens=10)) == [
        ("discount", None, 20),
        ("not_proxied", None, None),
    ]


def test_what_bypassed_the_proxy_has_the_name_of_its_product(upstream, explain):
    for product, tier in (
        ("messages_api", "standard"),
        ("claude_code", "standard"),
        ("message_batches_api", "batch"),
        ("claude_console", "standard"),
        ("managed_agents_api", "standard"),
    ):
        upstream.use("2026-01-02", "m", output=10, product=product, tier=tier)
        upstream.charge("2026-01-02", "m", "4", list_cents="5", product=product, tier=tier)
    assert explain(recorded("10", output_tokens=20)) == [
        ("product", "claude_console", 4),
        ("product", "managed_agents_api", 4),
        ("batches", None, 4),
        ("discount", None, 2),
    ]


def test_products_are_listed_with_both_prices_and_their_requests(upstream, fetch):
    upstream.use("2026-01-01", "m", output=10, requests=2)
    upstream.use("2026-01-02", "n", output=5, requests=3)
    upstream.charge("2026-01-02", "n", "80", list_cents="100")
    upstream.charge("2026-01-02", None, "90", kind="code_execution", product=None)
    found = compare(fetch().items, [], open_day=date(2026, 2, 1)).products
    assert [(each.product, each.requests) for each in found] == [(None, 0), ("messages_api", 5)]
    assert found[1].reported.list_cents == Decimal(100)
    assert found[1].reported.all_tokens == 15
