"""The home page: what came in, what runs, and how to connect."""

import os
import re
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from dashboard.home import overview
from dashboard.home.chart import make_bars
from dashboard.home.overview import Day, read_overview
from dashboard.kept_connections import KeptConnections
from metering.formats import format_bytes
from runtime import clock
from runtime.heartbeat import Heartbeat
from store.control.management import Management
from store.traces.database import TraceDatabase
from store.traces.maintenance.removal import used_bytes
from store.traces.paths import trace_path
from store.traces.sums.usage_report import Totals
from tests.dashboard.pages import words_of
from tests.dashboard.people import BASE_URL
from tests.proxy_endpoints import create_endpoint
from tests.store.traces.sums.test_products import READING, make_object
from tests.store.traffic import make_entry

NOW = datetime(2026, 3, 14, 9, tzinfo=UTC)
TODAY = NOW.date()


@pytest.fixture
def record(settings):
    """Calls of an organisation, made just now unless said otherwise."""

    def insert(organization_id, *changes, path=None):
        now = clock.format_ms(clock.now())
        with TraceDatabase(path or trace_path(settings.data_dir, organization_id)) as traces:
            traces.insert([make_entry(**({"created_at": now} | change)) for change in changes])

    return insert


def beat(settings, **changes):
    pulse = {"pid": os.getpid(), "beat_s": time.monotonic()} | changes
    Heartbeat(**pulse).write(settings.data_dir)


# -- nothing yet ----------------------------------------------------------------------------------


def test_the_first_thing_is_an_endpoint_and_then_the_line_that_connects_a_client(ann):
    assert 'action="/settings/endpoints"' in ann.get("/").text
    answer = ann.post("/settings/endpoints", name="My team", **{"from": "home"})
    assert answer.status_code == 303
    page = ann.get(answer.headers["location"]).text
    assert "is ready to use" in page
    line = f"export ANTHROPIC_BASE_URL={BASE_URL}/proxy/my-team"
    assert f"<code>{line}</code>" in page
    assert f'data-copy="{line}"' in page
    assert f"curl {BASE_URL}/proxy/my-team/v1/messages" in page
    assert page.index(line) < page.index("Server status")


def test_many_endpoints_are_left_to_the_settings(ann, control, settings):
    for number in range(7):
        create_endpoint(control, ann.organization_id, f"team {number}")
    page = ann.get("/").text
    assert page.count("export ANTHROPIC_BASE_URL=") == 2 * 5, "shown and copied"
    assert "All endpoints" in page


# -- figures --------------------------------------------------------------------------------------


def test_today_is_summed_and_the_newest_calls_lead_to_their_traces(ann, record):
    yesterday = clock.format_ms(clock.now() - timedelta(days=1))
    record(
        ann.organization_id,
        {"created_at": yesterday, "cost_cents": Decimal("700")},
        {"cost_cents": Decimal("150"), "input_tokens": 1000, "cache_read_input_tokens": 9000},
        {"outcome": "upstream_error", "status_code": 529, "model": "claude-opus-4-5"},
    )
    page = ann.get("/").text
    assert "$1.51" in page
    assert "yesterday $7.00" in page
    assert '<a href="/calls/3">' in page
    assert "error 529" in page
    assert "claude-opus-4-5" in page
    assert page.index("/calls/3") < page.index("/calls/2")
    assert 'href="/traces/usage"' in page
    assert f"export ANTHROPIC_BASE_URL={BASE_URL}/proxy/" not in page, "ann has no endpoint"


def test_the_cost_leads_to_what_it_includes(ann, record):
    record(ann.organization_id, {})
    figure = ann.get("/").text.partition("<dt>Cost</dt>")[2].partition("</div>")[0]
    assert '<a href="/help/costs">What the cost includes</a>' in figure


def test_the_estimated_part_of_the_cost_is_said(ann, record):
    estimate = {"usage_source": "estimated", "estimated_cents": Decimal("31")}
    record(
        ann.organization_id,
        {"cost_cents": Decimal("1209")},
        {"cost_cents": Decimal("31")} | estimate,
    )
    page = ann.get("/").text
    figure = page.partition("<dt>Cost</dt>")[2].partition("</div>")[0]
    calls = f"/traces/usage?created_at__gte={clock.now().date()}&amp;usage_source=estimated"
    assert f'<a href="{calls}">$0.3100 estimated</a>' in figure
    assert page.count("$0.3100 estimated") == 3  # today, its row, its model
    newest = page.partition("Newest calls")[2]
    assert newest.count("<small>estimated</small>") == 1


def test_the_value_of_a_subscription_is_told_from_spend(ann, record):
    record(
        ann.organization_id,
        {"cost_cents": Decimal("1200"), "billing": "subscription"},
        {"cost_cents": Decimal("9"), "billing": "customer"},
        {"cost_cents": Decimal("31")},
    )
    figure = ann.get("/").text.partition("<dt>Cost</dt>")[2].partition("</div>")[0]
    assert '<small class="part">$0.3100 spend, <a href="/traces/usage?created_at__gte=' in figure
    covered = '&amp;billing__in=subscription,customer">$12.09 not billed to you</a>'
    assert covered in figure


def test_a_refusal_is_not_marked_as_complete(ann, record):
    record(ann.organization_id, {"stop_reason": "refusal"})
    newest = ann.get("/").text.partition("Newest calls")[2]
    assert 'class="mark refused"' in newest
    assert "mark ok" not in newest.partition("</table>")[0]


def test_calls_that_may_have_been_billed_are_counted_apart(ann, record):
    gone = {"usage_source": "none", "cost_cents": None, "cost_items": ()}
    record(ann.organization_id, gone | {"outcome": "proxy_restarted", "status_code": None})
    assert "1 call without usage may have been billed today." in ann.get("/").text


def test_the_newest_calls_are_those_that_arrived_last(ann, record):
    now = clock.now()
    record(
        ann.organization_id,
        {"created_at": clock.format_ms(now), "slug": "arrived-last"},
        {"created_at": clock.format_ms(now - timedelta(seconds=30)), "slug": "stored-last"},
    )
    page = ann.get("/").text
    assert page.index("arrived-last") < page.index("stored-last")


def test_each_organisation_sees_its_own_figures(ann, cid, record):
    record(cid.organization_id, {"model": "secret-model", "cost_cents": Decimal("12300")})
    assert "secret-model" in cid.get("/").text
    page = ann.get("/").text
    assert "secret-model" not in page
    assert "$123" not in page


def test_what_has_no_price_or_was_refused_is_said_with_what_to_do(ann, record, settings):
    record(
        ann.organization_id,
        {"cost_cents": None, "cost_items": (), "model": "new-model"},
    )
    path = trace_path(settings.data_dir, ann.organization_id)
    page = ann.get("/").text
    assert "1 call has no known price" in page
    assert "taximeter reprice" in page
    assert "refused today" not in page
    refuse(path, messages=1234)
    page = words_of(ann.get("/").text)
    assert "1,234 requests were refused today by the rate limit of an endpoint" in page
    assert "budget" not in page.partition("Today")[0]


def refuse(path, **counts):
    """Requests that were refused just now, by what refused them."""
    hour = clock.format_ms(clock.now())[:13]
    rows = [("f", hour, "pe", "slug", bucket, count) for bucket, count in counts.items()]
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany("insert into rejections values (?, ?, ?, ?, ?, ?)", rows)


def test_what_a_budget_refused_is_said_with_who_can_raise_it_and_when_it_begins_anew(
    ann, bob, record, control, settings
):
    endpoint = create_endpoint(control, ann.organization_id, "Night shift")
    management = Management(control, settings.data_dir)
    status = management.budgets.put(
        management.find_caller(ann.email), endpoint.id, period="day", limit_usd=1, action="refuse"
    )
    spent = {"proxy_endpoint_id": endpoint.id, "cost_cents": Decimal(200)}
    record(ann.organization_id, spent)
    refuse(trace_path(settings.data_dir, ann.organization_id), messages=1, budget=12)
    begins = f"The budget of Night shift begins anew at {status.span.end:%Y-%m-%d %H:%M} UTC."
    for person, who in (
        (ann, "Before that, you can raise it in Settings."),
        (bob, f"Before that, an owner can raise it: {ann.email}."),
    ):
        notice = words_of(person.get("/").text).partition("Since midnight")[0].replace(" .", ".")
        assert "12 requests were refused today because a budget was used up" in notice
        assert "1 request was refused today by the rate limit" in notice
        assert f"{begins} {who}" in notice
        assert "another endpoint" not in notice
    management.budgets.delete(management.find_caller(ann.email), endpoint.id)
    assert "Before its next day or month begins, you can raise" in words_of(ann.get("/").text)


def test_the_size_of_the_database_is_the_same_on_both_pages_that_show_it(ann, settings):
    with TraceDatabase(trace_path(settings.data_dir, ann.organization_id)) as traces:
        traces.insert([make_entry() for _ in range(300)])
        with (
            traces.connection
        ):  # free pages, and a write-ahead log that is larger than what is left
            traces.connection.execute("create table passing as select randomblob(4000000)")
            traces.connection.execute("drop table passing")
        home = words_of(ann.get("/").text)
        settings_page = words_of(ann.get("/settings/data").text)
        size_bytes = used_bytes(traces.connection)
    size = format_bytes(size_bytes)
    assert f"Database size {size} " in home
    assert f"The database has {size}" in settings_page
    assert size_bytes < 4_000_000


def test_markup_in_what_was_recorded_is_shown_harmless(ann, record):
    evil = "<img src=x onerror=alert(1)>\"'"
    record(
        ann.organization_id, {"model": evil, "slug": "x"}, {"model": None, "request_model": evil}
    )
    page = ann.get("/").text
    assert "<img" not in page
    assert "&lt;img src=x" in page
    assert "style=" not in page
    assert "<script>" not in page


def test_sums_stay_where_the_calls_were_removed(ann, record, settings):
    record(ann.organization_id, {})
    with sqlite3.connect(trace_path(settings.data_dir, ann.organization_id)) as db:
        db.execute("delete from usage")
    db.close()
    page = ann.get("/").text
    assert "their totals are kept" in page
    assert "$0.0125" in page


def test_the_month_leads_to_the_overview(ann, record):
    record(
        ann.organization_id,
        {"cost_cents": Decimal("150"), "billing": "subscription"},
        {"cost_cents": Decimal("10")},
    )
    figure = ann.get("/").text.partition("<dt>This month</dt>")[2].partition("</div>")[0]
    assert '<a href="/overview?span=month">$1.60</a>' in figure
    assert "$0.1000 spend" in figure
    assert "expected" not in figure, "there is less than a day of calls"
    then = clock.format_ms(clock.now() - timedelta(days=40))
    record(ann.organization_id, {"created_at": then})
    figure = ann.get("/").text.partition("<dt>This month</dt>")[2].partition("</div>")[0]
    assert "expected at its end $" in figure


def test_the_most_expensive_sessions_of_the_week_are_listed(ann, record):
    old = clock.format_ms(clock.now() - timedelta(days=8))
    record(
        ann.organization_id,
        {"session_id": "old", "created_at": old, "cost_cents": Decimal(9_000)},
        *({"session_id": f"s{n}", "cost_cents": Decimal(100 * n)} for n in range(7)),
    )
    week = ann.get("/").text.partition("Most expensive sessions of the week")[2]
    links = re.findall(r'<a href="/sessions/(\w+)">', week)
    assert links == ["s6", "s5", "s4", "s3", "s2"]
    assert 'href="/sessions?order=cost"' in week


def test_the_latest_failures_are_listed_below_the_newest_calls(ann, record, monkeypatch):
    failed = {"outcome": "upstream_error", "status_code": 529}
    record(ann.organization_id, failed, {"outcome": "client_disconnected"}, *[{}] * 11)
    failures = ann.get("/").text.partition("Latest failures")[2]
    assert re.findall(r'href="/calls/(\d+)"', failures) == ["1"]
    monkeypatch.setattr(overview, "FAILURES_AMONG", 12)
    assert "Latest failures" not in ann.get("/").text, "so few calls are looked at"


# -- days -----------------------------------------------------------------------------------------


def test_there_are_fourteen_days_with_today_last(tmp_path, record):
    path = tmp_path / "org" / "traces.db"
    path.parent.mkdir()
    record(
        "",
        {"created_at": "2026-02-28T23:59:59.999Z", "cost_cents": Decimal(5)},
        {"created_at": "2026-03-01T00:00:00.000Z", "cost_cents": Decimal(1)},
        {"created_at": "2026-03-14T23:59:59.999Z", "cost_cents": Decimal(2)},
        path=path,
    )
    seen = read_overview(KeptConnections(), path, NOW)
    assert [day.day for day in seen.days] == [
        TODAY - timedelta(days=back) for back in reversed(range(14))
    ]
    assert [day.totals.cost_cents for day in seen.days] == [1, *[0] * 12, 2]
    assert seen.today.calls == 1
    assert seen.yesterday.calls == 0
    assert seen.highest_cents == 2


def test_the_most_expensive_day_fills_the_chart_and_a_cheap_one_is_seen():
    costs = [0.0, 0.0001, 50.0, 100.0]
    bars = make_bars([Day(TODAY, Totals(cost_cents=cost)) for cost in costs])
    assert [bar.height for bar in bars] == [0, 2, 50, 100]
    assert [bar.y + bar.height for bar in bars] == [100] * 4


@pytest.mark.parametrize("days", [[], [Day(TODAY, Totals(calls=3))]])
def test_there_is_no_chart_of_nothing(days):
    assert make_bars(days) == ()


# -- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"not a database" * 100, b""])
def test_a_broken_database_leaves_the_rest_of_the_page(ann, control, settings, content):
    create_endpoint(control, ann.organization_id, "team")
    path = trace_path(settings.data_dir, ann.organization_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    answer = ann.get("/")
    assert answer.status_code == 200
    assert ("cannot be read" in answer.text) == bool(content)
    assert "export ANTHROPIC_BASE_URL=" in answer.text
    assert str(settings.data_dir) not in answer.text


def test_a_locked_database_leaves_the_rest_of_the_page(ann, record, settings, monkeypatch):
    monkeypatch.setattr("dashboard.kept_connections.BUSY_TIMEOUT_S", 0.01)
    record(ann.organization_id, {})
    path = trace_path(settings.data_dir, ann.organization_id)
    locked = sqlite3.connect(path, isolation_level=None)
    locked.execute("pragma locking_mode = exclusive")
    locked.execute("begin exclusive")
    try:
        answer = ann.get("/")
        assert answer.status_code == 200
        assert overview._BUSY in answer.text
    finally:
        locked.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, '<span class="mark ok">running</span>'),
        ({"waiting": 1}, "1 call waits to be stored"),
        ({"waiting": 7, "stuck_organizations": 1}, "Calls wait to be stored"),
        ({"beat_s": time.monotonic() - 60}, "The recorder is not running"),
    ],
)
def test_the_recorders_state_is_told(ann, settings, changes, words):
    beat(settings, **changes)
    assert words in ann.get("/").text


def test_a_recorder_that_was_never_there_is_told(ann):
    assert "The recorder is not running" in ann.get("/").text


# -- invitations ----------------------------------------------------------------------------------


@pytest.fixture
def invitation(ann, control, settings, cid):
    with control.reading():
        caller = Management(control, settings.data_dir).find_caller("cid@example.org")
    return Management(control, settings.data_dir).invite(caller, "ann@example.org")


def test_an_invitation_waits_on_the_home_page_and_joining_goes_there(ann, cid, invitation, record):
    record(cid.organization_id, {"model": "model-of-cid"})
    page = ann.get("/").text
    assert "You are invited to cid@example.org Ltd" in page
    answer = ann.post(f"/invitations/{invitation.id}/join")
    assert answer.headers["location"] == "/?done=joined"
    page = ann.get("/?done=joined").text
    assert "You joined the organisation" in page
    assert "model-of-cid" in page
    assert "You are invited" not in page
    assert ann.post(f"/invitations/{invitation.id}/join").status_code == 404


def test_a_declined_invitation_is_gone(ann, invitation):
    answer = ann.post(f"/invitations/{invitation.id}/decline")
    assert answer.headers["location"] == "/?done=invitation-declined"
    assert "You are invited" not in ann.get("/").text
    for verb in ("join", "decline"):
        answer = ann.post(f"/invitations/{invitation.id}/{verb}")
        assert answer.status_code == 404
        assert "declined or withdrawn" in answer.text


@pytest.mark.parametrize("verb", ["join", "decline"])
def test_an_invitation_of_somebody_else_cannot_be_answered(
    make_person, control, invitation, verb, settings
):
    eve = make_person("eve@example.org")
    assert "You are invited" not in eve.get("/").text
    assert eve.post(f"/invitations/{invitation.id}/{verb}").status_code == 404
    caller = Management(control, settings.data_dir).find_caller("cid@example.org")
    assert len(Management(control, settings.data_dir).list_invitations(caller)) == 1


@pytest.mark.parametrize("code", ["<script>alert(1)</script>", "nonsense", ""])
def test_the_address_cannot_put_words_on_the_page(ann, code):
    page = ann.browser.get("/", params={"done": code}).text
    assert 'role="status"' not in page
    assert "alert(1)" not in page


def test_products_of_their_own_are_named_with_what_they_cost(ann, record, settings):
    record(ann.organization_id, {})
    assert "Other products" not in ann.get("/").text
    now = clock.format_ms(clock.now())
    record(ann.organization_id, {"product": "batch", "cost_cents": Decimal(34), "created_at": now})
    with TraceDatabase(trace_path(settings.data_dir, ann.organization_id)) as traces:
        session = make_object("sesn_1", cents="190", list_cents="200", created_at=now)
        traces.write_upstream_objects(READING, [session])
    part = ann.get("/").text.partition("Other products this month")[2].partition("</ul>")[0]
    assert '<a href="/traces/usage?product=batch">1 result of batches</a>: $0.3400' in part
    assert '<a href="/traces/upstream_objects?kind=session">1 managed session</a>: $1.90' in part
    assert "$2.00 by upstream" in part
    assert ann.get("/traces/upstream_objects?kind=session").status_code == 200
