"""Fetching the reports of the Admin API, and the errors where they cannot be had."""

import json
import logging
import ssl
from collections import Counter
from datetime import date
from decimal import Decimal

import pytest
import trustme

from extensions.reconcile.admin_api import MAX_ATTEMPTS, AdminApi
from extensions.reconcile.admin_key import AdminKeyError, ReportError, read_admin_key
from extensions.reconcile.comparison import TOKENS, WEB_SEARCH
from extensions.reconcile.reports import fetch_reports
from extensions.reconcile.tests import admin_api
from extensions.reconcile.tests.admin_api import ADMIN_KEY, ORGANIZATION
from metering.token_counts import TokenCounts
from tests.upstream import (
    CLOSE,
    RESET,
    Script,
    Upstream,
    answer,
    chunked,
    error_json,
    head,
    refusing_address,
)

FIRST, LAST = date(2026, 1, 1), date(2026, 1, 3)
EMPTY = {"data": [], "has_more": False, "next_page": None}


@pytest.fixture
def upstream():
    with admin_api.AdminApi() as upstream:
        yield upstream
    assert upstream.faults == []
    assert upstream.server.faults == []


@pytest.fixture
def waits():
    return []


@pytest.fixture
def fetch(upstream, waits):
    def fetch(first=FIRST, last=LAST, *, url=None, key=ADMIN_KEY):
        api = AdminApi(url or upstream.url, key, is_local=True, sleep=waits.append)
        with api:
            return fetch_reports(api, first, last)

    return fetch


def as_json(document, status=200):
    return answer(status, json.dumps(document).encode())


def bucket(*results, day="2026-01-01"):
    return {
        "starting_at": f"{day}T00:00:00Z",
        "ending_at": "2026-01-02T00:00:00Z",
        "results": list(results),
    }


def usage_item(**changes):
    item = {
        "uncached_input_tokens": 1,
        "cache_read_input_tokens": 2,
        "cache_creation": {"ephemeral_1h_input_tokens": 3, "ephemeral_5m_input_tokens": 4},
        "output_tokens": 5,
        "server_tool_use": {"web_search_requests": 0},
        "model": "m",
    }
    return item | changes


def test_tokens_and_costs_are_read_by_day_model_workspace_key_and_tier(upstream, fetch):
    upstream.use(
        "2026-01-02", "claude-opus-5-5", input=10, output=20, read=30, write_5m=40, write_1h=50,
        workspace="wrkspc_01", key="apikey_02", tier="batch",
    )  # fmt: skip
    upstream.charge(
        "2026-01-02", "claude-opus-5-5", "123.78912", workspace="wrkspc_01", tier="batch"
    )
    usage, cost = fetch().items
    assert (usage.day, usage.kind, usage.model) == (date(2026, 1, 2), TOKENS, "claude-opus-5-5")
    assert usage.figures.tokens == TokenCounts(10, 20, 90, 30)
    assert usage.figures.cost_cents == 0
    assert (usage.workspace_id, usage.api_key_id, usage.service_tier) == (
        "wrkspc_01",
        "apikey_02",
        "batch",
    )
    assert (cost.day, cost.kind, cost.model) == (usage.day, TOKENS, usage.model)
    assert cost.figures.cost_cents == Decimal("123.78912")
    assert (cost.workspace_id, cost.api_key_id, cost.service_tier) == ("wrkspc_01", None, "batch")


def test_web_searches_stand_apart_from_the_model_as_their_cost_does(upstream, fetch):
    upstream.use("2026-01-01", "claude-opus-5-5", input=1, searches=3)
    upstream.charge("2026-01-01", None, "3", kind="web_search")
    tokens, searches, cost = fetch().items
    assert (tokens.kind, tokens.figures.web_search_requests) == (TOKENS, 0)
    assert (searches.kind, searches.model, searches.figures.web_search_requests) == (
        WEB_SEARCH,
        None,
        3,
    )
    assert (cost.kind, cost.model, cost.figures.cost_cents) == (WEB_SEARCH, None, 3)


def test_all_pages_of_both_reports_are_read_and_nothing_twice(upstream, fetch):
    days = [date(2026, 1, 1).fromordinal(date(2026, 1, 1).toordinal() + n) for n in range(70)]
    for number, day in enumerate(days):
        upstream.use(day.isoformat(), "m", input=number + 1)
        upstream.charge(day.isoformat(), "m", "1")
    found = fetch(days[0], days[-1])
    assert [item.figures.tokens.input_tokens for item in found.items[:70]] == list(range(1, 71))
    assert [item.day for item in found.items[70:]] == days
    assert found.missing_days == 0
    paths = Counter(request.target.partition("?")[0] for request in upstream.requests)
    assert paths == {admin_api.USAGE: 3, admin_api.COST: 3}


def test_pages_may_be_smaller_than_asked_for(upstream, fetch):
    upstream.page_days = 1
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        upstream.use(day, "m", input=1)
    assert len(fetch().items) == 3
    assert len(upstream.requests) == 6


def test_the_key_is_in_one_header_and_nowhere_else(upstream, fetch, caplog):
    with caplog.at_level(logging.DEBUG):
        fetch()
    assert upstream.requests[0].header("x-api-key") == ADMIN_KEY
    assert all(request.head.count(ADMIN_KEY.encode()) == 1 for request in upstream.requests)
    assert all(ADMIN_KEY not in request.target for request in upstream.requests)
    assert ADMIN_KEY not in caplog.text
    assert ADMIN_KEY not in repr(vars(AdminApi(upstream.url, ADMIN_KEY)))


def test_the_organisation_of_the_key_is_known_where_upstream_names_it(upstream, fetch):
    assert fetch().organization_id == ORGANIZATION
    upstream.organization_id = None
    assert fetch().organization_id is None


def test_days_without_a_bucket_are_counted(upstream, fetch):
    upstream.instead = [as_json(EMPTY | {"data": [bucket(usage_item())]}), as_json(EMPTY)]
    found = fetch()
    assert (len(found.items), found.missing_days) == (1, 2)


def test_days_that_were_not_asked_for_are_left_out(upstream, fetch):
    late = bucket(usage_item(), day="2026-01-04")
    upstream.instead = [as_json(EMPTY | {"data": [late, bucket()]}), as_json(EMPTY)]
    assert fetch().items == ()


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_passing_failure_is_tried_again(upstream, fetch, waits, status):
    upstream.use("2026-01-01", "m", input=1)
    upstream.instead = [as_json({}, status), as_json({}, status)]
    assert len(fetch().items) == 1
    assert waits == [1, 2]


@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_a_connection_that_breaks_is_tried_again(upstream, fetch, waits, end):
    cut = head(200, [("content-length", "100")]) + b'{"data"'
    upstream.instead = [Script((cut, end)), Script((end,))]
    assert fetch().items == ()
    assert waits == [1, 2]


def test_as_long_as_upstream_says_is_waited_and_no_longer(upstream, fetch, waits):
    busy = [("content-type", "application/json"), ("retry-after", "7")]
    upstream.instead = [answer(429, b"{}", busy)]
    fetch()
    assert waits == [7]
    upstream.instead = [answer(429, b"{}", [("retry-after", "3600")])]
    with pytest.raises(ReportError, match="try again in 3600 s"):
        fetch()
    assert waits == [7]


def test_a_date_in_retry_after_is_read_too(upstream, fetch, waits):
    upstream.instead = [
        answer(503, b"{}", [("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")]),
        answer(503, b"{}", [("retry-after", "soon")]),
    ]
    fetch()
    assert waits == [0, 2]


def test_failures_are_not_tried_for_ever(upstream, fetch, waits):
    upstream.instead = [as_json({}, 529) for _ in range(MAX_ATTEMPTS)]
    with pytest.raises(ReportError, match="failed with 529; try again later"):
        fetch()
    assert len(upstream.requests) == MAX_ATTEMPTS
    assert len(waits) == MAX_ATTEMPTS - 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "refuses the report with 400: bad news"),
        (401, r"does not accept the key in ANTHROPIC_ADMIN_KEY.*sk-ant-admin"),
        (403, r"may not read usage and cost reports.*not for individual accounts"),
        (404, "has no /v1/organizations/usage_report/messages; .*gateway"),
        (302, "redirects reports elsewhere"),
    ],
)
def test_a_refusal_says_what_to_do_and_is_not_tried_again(upstream, fetch, waits, status, words):
    refusal = error_json("some_error", "bad news")
    upstream.instead = [answer(status, refusal, [("location", "https://elsewhere.example/")])]
    with pytest.raises(ReportError, match=words):
        fetch()
    assert waits == []
    assert len(upstream.requests) == 1


def test_a_refusal_that_repeats_the_key_does_not_show_it(upstream, fetch):
    upstream.instead = [answer(401, error_json("e", f"no such key: {ADMIN_KEY} \x1b[2J"))]
    with pytest.raises(AdminKeyError) as caught:
        fetch()
    assert ADMIN_KEY not in str(caught.value)
    assert "no such key: … ?[2J" in str(caught.value)


def test_nobody_listens(fetch, waits):
    with (
        refusing_address() as nowhere,
        pytest.raises(ReportError, match="cannot be reached") as caught,
    ):
        fetch(url=nowhere)
    assert nowhere in str(caught.value)
    assert len(waits) == MAX_ATTEMPTS - 1


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "Input should be an object"),
        ({"data": []}, "has_more: Field required"),
        (EMPTY | {"data": [{"results": []}]}, "data.0.starting_at"),
        (EMPTY | {"data": [bucket() | {"starting_at": "2026-01-01"}]}, "data.0.starting_at"),
        (EMPTY | {"data": [bucket(usage_item(output_tokens=-1))]}, "results.0.output_tokens"),
        (EMPTY | {"data": [bucket(usage_item(output_tokens="5"))]}, "results.0.output_tokens"),
        (EMPTY | {"data": [bucket(usage_item(output_tokens=10**30))]}, "results.0.output_tokens"),
        (
            EMPTY | {"data": [bucket() | {"starting_at": "0001-01-01T00:00:00+05:00"}]},
            "data.0.starting_at: Value error, there is no such date in UTC",
        ),
        (EMPTY | {"data": [bucket(usage_item(output_tokens=True))]}, "results.0.output_tokens"),
        (EMPTY | {"data": [bucket({"amount": "1", "currency": "USD"})]}, "uncached_input_tokens"),
        (EMPTY | {"has_more": True}, "has_more without next_page"),
    ],
)
def test_another_shape_than_the_documented_one_is_named(upstream, fetch, document, words):
    upstream.instead = [as_json(document)]
    with pytest.raises(ReportError, match="not respond with a report as documented") as caught:
        fetch()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "item",
    [
        {"amount": "12", "currency": "EUR"},
        {"amount": "NaN", "currency": "USD"},
        {"amount": "Infinity", "currency": "USD"},
        {"amount": "twelve", "currency": "USD"},
        {"amount": "1e999", "currency": "USD"},
    ],
)
def test_an_amount_that_is_none_is_refused(upstream, fetch, item):
    upstream.instead = [as_json(EMPTY), as_json(EMPTY | {"data": [bucket(item)]})]
    with pytest.raises(ReportError, match=r"data\.0\.results\.0"):
        fetch()


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"data": [', b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_json_is_no_report(upstream, fetch, body):
    upstream.instead = [answer(200, body)]
    with pytest.raises(ReportError, match="not respond with a report as documented"):
        fetch()


def test_new_fields_and_new_values_do_no_harm(upstream, fetch):
    item = usage_item(service_tier="turbo", speed="fast", requests=12)
    cost = {"amount": "-5", "currency": "USD", "cost_type": "credit", "list_amount": "9"}
    upstream.instead = [
        as_json(EMPTY | {"data": [bucket(item)]}),
        as_json(EMPTY | {"data": [bucket(cost)]}),
    ]
    usage, credit = fetch().items
    assert usage.service_tier == "turbo"
    assert (credit.kind, credit.figures.cost_cents) == ("credit", -5)


def test_pages_that_come_back_to_the_start_are_an_error(upstream, fetch):
    upstream.instead = [as_json(EMPTY | {"has_more": True, "next_page": "same"}) for _ in range(99)]
    with pytest.raises(ReportError, match="a report without an end"):
        fetch()
    assert len(upstream.requests) == 2


def test_pages_without_an_end_are_an_error(upstream, fetch):
    upstream.instead = [
        as_json(EMPTY | {"has_more": True, "next_page": f"p{number}"}) for number in range(99)
    ]
    with pytest.raises(ReportError, match="a report without an end"):
        fetch()
    assert len(upstream.requests) == 13


def test_a_response_that_never_ends_is_given_up(upstream, fetch, monkeypatch):
    monkeypatch.setattr("extensions.reconcile.admin_api.MAX_RESPONSE_BYTES", 1000)
    upstream.instead = [chunked(200, [b" " * 600, b" " * 600])]
    with pytest.raises(ReportError, match="sends more than a report can have"):
        fetch()


def test_a_response_that_drips_is_given_up(upstream, fetch, waits, monkeypatch):
    monkeypatch.setattr("extensions.reconcile.admin_api.RESPONSE_TIMEOUT_S", -1.0)
    with pytest.raises(ReportError, match="does not respond in time"):
        fetch()
    assert len(waits) == MAX_ATTEMPTS - 1


def test_certificate_authorities_that_cannot_be_read_are_an_error(fetch, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/authorities.pem")
    with pytest.raises(OSError, match=r"No such file or directory.*SSL_CERT_FILE") as caught:
        fetch(url="https://api.example.org")
    assert caught.value.filename == "/nowhere/authorities.pem"


def test_a_certificate_that_is_not_trusted_is_named_and_not_tried_again(fetch, waits):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(tls)
    with (
        Upstream(tls=tls) as secured,
        pytest.raises(ReportError, match=r"certificate that is not trusted.*SSL_CERT_FILE"),
    ):
        fetch(url=secured.url)
    assert (waits, secured.requests) == ([], [])


# -- the key --------------------------------------------------------------------------------------


def test_the_key_is_read_from_the_environment():
    assert read_admin_key({"ANTHROPIC_ADMIN_KEY": f" {ADMIN_KEY}\n"}) == ADMIN_KEY


@pytest.mark.parametrize("key", [ADMIN_KEY, "sk-ant-api01-abcdefghijkl"])
def test_the_analytics_reports_can_be_read_by_a_key_that_may_have_their_scope(key):
    assert read_admin_key({"ANTHROPIC_ADMIN_KEY": key}, analytics=True) == key


@pytest.mark.parametrize("value", ["", "sk-ant-oat01-abcdefghijkl", "sk-proj-abcdefghijkl"])
def test_no_other_value_is_a_key_for_the_analytics_reports(value):
    with pytest.raises(AdminKeyError, match=r"or the primary owner .* the scope read:analytics"):
        read_admin_key({"ANTHROPIC_ADMIN_KEY": value}, analytics=True)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "there is no key in the environment variable ANTHROPIC_ADMIN_KEY"),
        ("  ", "there is no key"),
        ("sk-ant-api03-abcdefghijkl", "cannot read these reports; .* name --analytics"),
        ("sk-ant-oat01-abcdefghijkl", "the token of a subscription"),
        ("sk-proj-abcdefghijkl", "is not a key of the Admin API"),
        ("sk-ant-admin01-ab\r\nx: y", "is not a key of the Admin API"),
        ("sk-ant-admin01-äöüabcdef", "is not a key of the Admin API"),
        (f"sk_{'k' * 43}", "is not a key of the Admin API"),
    ],
)
def test_every_other_value_is_refused_with_the_remedy_and_never_quoted(value, words):
    with pytest.raises(AdminKeyError, match=words) as caught:
        read_admin_key({"ANTHROPIC_ADMIN_KEY": value})
    assert "creates an Admin API key (sk-ant-admin…)" in str(caught.value)
    assert not value.strip() or value.strip()[-9:] not in str(caught.value)
