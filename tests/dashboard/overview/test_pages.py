"""``/overview.json``: its figures against SQL over the calls."""

import math
import random
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from metering.body_fields import calculate_speed
from metering.entry import UsageSource
from metering.rate_limits import RateLimits
from store.spool.format import Rejection
from store.traces.database import TraceDatabase
from store.traces.sums import overview_reader
from store.traces.sums.histograms import RESOLUTION
from tests.store.traces.sums.test_products import READING, make_object
from tests.store.traffic import make_entry

NOW = datetime(2026, 3, 14, 9, 26, tzinfo=UTC)
TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
FAILED = "outcome not in ('complete', 'client_disconnected')"
COVERED = "(billing = 'customer' or billing = 'subscription' and coalesce(overage, 0) = 0)"

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture(autouse=True)
def _now(monkeypatch):
    monkeypatch.setattr("dashboard.overview.pages.clock", SimpleNamespace(now=lambda: NOW))


def make_any(dice):
    ttfb_ms = dice.lognormvariate(6, 1)
    timed = {"ttfb_ms": ttfb_ms, "duration_ms": ttfb_ms + 900.0, "streamed": True}
    outcome = dice.choice(["complete"] * 5 + ["upstream_error", "client_disconnected"])
    model = dice.choice(["opus", "haiku", "sonnet"]) if outcome != "upstream_error" else None
    source: UsageSource = "none" if model is None else "final"
    cents = dice.choice([Decimal("1.5"), Decimal("20.25")])
    return make_entry(
        created_at=f"2026-{dice.choice(['02', '03'])}-{dice.randrange(1, 15):02}"
        f"T{dice.randrange(9):02}:10:00.000Z",
        slug=dice.choice(["team", "batch"]),
        model=model,
        client=dice.choice([None, "claude-cli/2.1", "claude-cli/2.2", "sdk/1"]),
        credential_hmac=dice.choice([None, "x", "y"]),
        session_id=dice.choice([None, "a", "b", "c"]),
        agent_id=dice.choice([None, "sub"]),
        attributed_user=dice.choice([None, "Ann", "bob"]),
        project=dice.choice([None, "shop"]),
        tags=dice.choice([None, '["env:prod"]', '["env:dev","nightly"]']),
        billing=dice.choice([None, "api_key", "subscription", "customer"]),
        overage=dice.choice([None, True]),
        cost_cents=None if model is None else cents,
        usage_source=source,
        outcome=outcome,
        status_code=529 if model is None else 200,
        proxy_overhead_ms=dice.choice([0.4, 2.0]),
        output_tokens_per_s=calculate_speed(source=source, output_tokens=20, **timed),
        **(dict.fromkeys(TOKENS) if model is None else {}),
        **timed,
    )


@pytest.fixture
def calls(ann):
    dice = random.Random(7)  # noqa: S311
    with TraceDatabase(ann.path) as traces:
        traces.insert([make_any(dice) for _ in range(600)])


def ask(ann, columns, where, rest=""):
    """Return what SQL finds over the calls themselves."""
    with closing(sqlite3.connect(ann.path)) as connection:
        return connection.execute(f"select {columns} from usage where {where} {rest}").fetchall()  # noqa: S608


def overview(ann, query):
    response = ann.get(f"/overview.json?{query}")
    assert response.status_code == 200, response.text
    return response.json()


# What each filter and each group is in SQL over the calls.
COLUMNS = {
    "endpoint": "slug",
    "model": "coalesce(model, '')",
    "client": "case when client like 'claude-cli/%' then 'claude-cli' when client is null then '' else 'sdk' end",
    "credential": "coalesce(credential_hmac, '')",
    "billing": "case when billing = 'subscription' and overage then 'overage' else coalesce(billing, '') end",
    "session": "coalesce(session_id, '')",
    "agent": "coalesce(agent_id, '')",
    "user": "coalesce(attributed_user, '')",
    "project": "coalesce(project, '')",
}
# What else a filter may be.
FILTER_COLUMNS = {
    **COLUMNS,
    "tag.user": COLUMNS["user"],
    "tag.project": COLUMNS["project"],
    "tag.env": "coalesce(json_extract(tags, '$[0]'), '')",
    "tag": "coalesce(json_extract(tags, '$[1]'), tags, '')",
}
WEEK = "created_at >= '2026-03-08' and created_at < '2026-03-15'"
TOTALS = (
    f"count(*), sum({FAILED}), round(total(cost_cents), 6),"
    f" round(total(case when {COVERED} then cost_cents end), 6),"
    f" {', '.join(f'total({name})' for name in TOKENS)}"
)
NAMES = ("calls", "errors", "cost_cents", "value_cents", *TOKENS)


def totals_of(found):
    return tuple(found[name] for name in NAMES)


def write_condition(filters):
    values = {name: "" if value == "(none)" else value for name, value in filters.items()}
    values |= {name: f"env:{value}" for name, value in values.items() if name == "tag.env"}
    return " and ".join(
        [WEEK, *(f"{FILTER_COLUMNS[name]} = '{value}'" for name, value in values.items())]
    )


FILTERS = [
    {},
    {"endpoint": "team"},
    {"session": "a"},
    {"agent": "(none)", "billing": "overage"},
    {"model": "opus", "client": "claude-cli"},
    {"tag.user": "Ann"},
    {"tag.project": "(none)", "tag.env": "prod"},
    {"tag": "nightly", "endpoint": "team"},
    {"tag": "(none)"},
]


@pytest.mark.slow
def test_figures_are_those_of_the_calls(ann, calls, subtests):
    for filters in FILTERS:
        with subtests.test(str(filters)):
            where = write_condition(filters)
            (expected,) = ask(ann, TOTALS, where)
            days = ask(ann, f"substr(created_at, 1, 10), {TOTALS}", where, "group by 1")
            assert expected[0] > 2
            for by, column in COLUMNS.items():
                found = overview(ann, urlencode({"span": "7d", "by": by, **filters}))
                assert totals_of(found["totals"]) == pytest.approx(expected)
                groups = {
                    each["name"]: totals_of(each) for each in found["groups"] if each["calls"]
                }
                rows = ask(ann, f"{column}, {TOTALS}", where, "group by 1")
                assert groups == {name or None: pytest.approx(tuple(rest)) for name, *rest in rows}
                assert not any(each["is_rest"] for each in found["groups"])
                steps = {
                    each["start"][:10]: totals_of(each) for each in found["steps"] if each["calls"]
                }
                assert steps == {day: pytest.approx(tuple(rest)) for day, *rest in days}
                cells = {
                    (step["start"][:10], group["name"] or ""): (group["calls"], group["cost_cents"])
                    for step in found["steps"]
                    for group in step["groups"]
                    if group["calls"]
                }
                columns = (
                    f"substr(created_at, 1, 10), {column}, count(*), round(total(cost_cents), 6)"
                )
                rows = ask(ann, columns, where, "group by 1, 2")
                assert cells == {
                    (day, name): (calls, pytest.approx(cost)) for day, name, calls, cost in rows
                }


def test_percentiles_are_those_of_the_calls_within_the_stated_resolution(ann, calls, subtests):
    for filters in FILTERS:
        with subtests.test(str(filters)):
            found = overview(ann, urlencode({"span": "7d", **filters}))
            assert found["percentile_resolution"] == RESOLUTION
            for name, percentiles in found["percentiles"].items():
                where = f"{name} is not null and {write_condition(filters)}"
                values = [value for (value,) in ask(ann, name, where, "order by 1")]
                assert percentiles["calls"] == len(values) > 2
                for key, share in (("p50", 0.5), ("p95", 0.95)):
                    exact = values[math.ceil(share * len(values)) - 1]
                    assert percentiles[key] == pytest.approx(exact, rel=RESOLUTION + 0.001)


def test_today_is_shown_by_the_hour(ann, calls):
    ann.record(created_at="2026-03-14T09:01:00.000Z", model="opus")
    for by in ("model", "session", "user", "project"):
        found = overview(ann, f"span=today&by={by}")
        hours = {each["start"][:13]: each["calls"] for each in found["steps"] if each["calls"]}
        where = "created_at >= '2026-03-14'"
        rows = ask(ann, "substr(created_at, 1, 13), count(*)", where, "group by 1")
        assert hours == dict(rows)
        assert sum(each["calls"] for each in found["groups"]) == sum(hours.values())


def test_a_period_is_compared_with_the_one_before_up_to_the_same_hour(ann):
    for at in ("2026-03-12T05", "2026-03-13T08", "2026-03-13T09", "2026-03-13T10", "2026-03-14T09"):
        ann.record(created_at=f"{at}:59:59.999Z", cost_cents=Decimal(100))
    found = overview(ann, "span=today")
    assert found["before"]["start"] == "2026-03-13T00:00:00Z"
    assert found["before"]["end"] == "2026-03-13T10:00:00Z"
    assert (found["before"]["calls"], found["totals"]["calls"]) == (2, 1)
    assert overview(ann, "span=2026-03-13..2026-03-14")["before"]["calls"] == 1


def test_the_month_is_expected_to_go_on_as_the_last_week(ann):
    ann.record(created_at="2026-02-01T00:00:00.000Z", cost_cents=Decimal(5_000))
    ann.record(created_at="2026-03-02T00:00:00.000Z", cost_cents=Decimal(900))
    covered = {"billing": "subscription", "cost_cents": Decimal(168)}
    ann.record(created_at="2026-03-07T09:00:00.000Z", **covered)
    ann.record(created_at="2026-03-14T08:59:00.000Z", cost_cents=Decimal(168))
    ann.record(created_at="2026-03-14T09:00:00.000Z", cost_cents=Decimal(7))
    month = overview(ann, "span=90d")["month"]
    left = (datetime(2026, 4, 1, tzinfo=UTC) - NOW).total_seconds() / 3600
    assert month["cost_cents"] == pytest.approx({"so_far": 1243, "expected": 1243 + 2 * left})
    assert month["spend_cents"] == pytest.approx({"so_far": 1075, "expected": 1075 + left})
    assert "mean of the last 7 days" in month["method"]


def test_products_of_their_own_are_named_where_no_filter_is_set(ann):
    at = "2026-03-14T03:00:00.000Z"
    ann.record({"product": "batch", "cost_cents": Decimal(34), "slug": "a"}, created_at=at)
    with TraceDatabase(ann.path) as traces:
        traces.write_upstream_objects(READING, [make_object("sesn_1", created_at=at)])
    for query, is_shown in (("span=today", True), ("span=today&endpoint=a", False)):
        listed = overview(ann, query)["products"]
        assert [(each["product"], each["cost_cents"], each["is_of_calls"]) for each in listed] == (
            [("batch", 34, True), ("session", 100, False)] if is_shown else []
        )
    assert overview(ann, "span=2026-03-10..2026-03-12")["products"] == []


def test_rejections_and_the_lowest_headroom_are_shown_where_they_are_known(ann):
    at = "2026-03-14T03:00:00.000Z"
    low = RateLimits(requests_limit=100, requests_remaining=5, tokens_limit=10, tokens_remaining=9)
    ann.record(created_at=at, rate_limits=low, credential_hmac="x")
    ann.record(created_at=at, credential_hmac="y")
    with TraceDatabase(ann.path) as traces:
        traces.insert_rejections(
            "f1",
            [
                Rejection(
                    organization_id=ann.organization_id,
                    hour=hour,
                    proxy_endpoint_id="pe_1",
                    slug=slug,
                    bucket="messages",
                    count=3,
                )
                for hour, slug in (
                    ("2026-03-14T03", "default"),
                    ("2026-03-14T04", "b"),
                    ("2026-03-01T04", "b"),
                )
            ],
        )
    found = overview(ann, "span=7d")
    assert found["headroom"] == {"requests_share": 0.05, "tokens_share": 0.9}
    assert found["totals"]["rejected"] == 6
    assert overview(ann, "span=7d&endpoint=b")["totals"]["rejected"] == 3
    assert overview(ann, "span=7d&endpoint=b")["headroom"] is None
    assert overview(ann, "span=7d&credential=y")["headroom"] == {}
    assert overview(ann, "span=7d&credential=y")["totals"]["rejected"] is None


def test_small_groups_are_one_rest_of_the_charts_and_lines_of_the_table(ann, monkeypatch):
    at = "2026-03-14T01:00:00.000Z"
    ann.record(
        *({"model": f"m{n}", "cost_cents": Decimal(n + 1)} for n in range(10)), created_at=at
    )
    found = overview(ann, "span=7d")
    in_charts = [each["name"] for each in found["steps"][-1]["groups"]]
    assert in_charts == ["m9", "m8", "m7", "m6", "m5", "m4", "m3", None]
    assert found["steps"][-1]["groups"][-1] == {
        "name": None, "request_model": None, "is_rest": True, "calls": 3, "cost_cents": 6
    }  # fmt: skip
    assert [each["cost_cents"] for each in found["groups"]] == list(range(10, 0, -1))
    monkeypatch.setattr("dashboard.overview.series.MAX_LISTED", 8)
    found = overview(ann, "span=7d")
    assert found["groups"][-1]["is_rest"]
    assert found["groups"][-1]["cost_cents"] == 3


def test_reading_calls_stops_after_a_while_and_says_so(ann, monkeypatch):
    ann.record(
        *({"created_at": f"2026-03-{day:02}T01:00:00.000Z"} for day in range(8, 15)), session_id="s"
    )
    monkeypatch.setattr(overview_reader, "ROWS_TIME_S", -1)
    monkeypatch.setattr("store.traces.sums.overview_calls._PROGRESS_STEPS", 1)
    assert overview(ann, "agent=(none)")["complete_from"] == "2026-03-14T10:00:00Z"
    complete = overview(ann, "by=session&model=claude-sonnet-4-5")
    assert complete["totals"]["calls"] == 7, "these are sums"
    assert [(each["calls"], each["is_rest"]) for each in complete["groups"]] == [(7, True)]


@pytest.mark.parametrize(
    "query", ["span=8d", "by=x", "span=2026-01-02..2026-01-01", f"model={'x' * 600}"]
)
def test_what_is_not_valid_is_refused_with_the_remedy(ann, query):
    response = ann.get(f"/overview.json?{query}")
    assert response.status_code == 400
    assert " must " in response.json()["error"]["message"]


def test_the_page_is_the_home_page_now_with_the_same_choice(ann):
    for before, now in (
        ("", "/"),
        ("?span=30d&by=endpoint&model=a%20b", "/?period=30d&by=endpoint&model=a+b"),
        ("?from=2026-03-08&to=2026-03-09", "/?from=2026-03-08&to=2026-03-09"),
    ):
        response = ann.get(f"/overview{before}")
        assert response.status_code == 301
        assert response.headers["location"] == now
