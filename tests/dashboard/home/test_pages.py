"""The home page: what came in, what runs, and how to connect."""

import json
import os
import re
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.home import pages
from metering.formats import format_bytes
from runtime import clock
from runtime.heartbeat import Heartbeat
from store.control import credential_names
from store.control.management import Management
from store.traces.database import TraceDatabase
from store.traces.maintenance.removal import used_bytes
from store.traces.paths import trace_path
from store.traces.sums import overview_reader
from tests.dashboard.live.following import Proxy
from tests.dashboard.pages import Page, words_of
from tests.dashboard.people import BASE_URL
from tests.proxy_endpoints import create_endpoint
from tests.store.traces.sums.test_products import READING, make_object
from tests.store.traffic import make_entry

NOW = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
MINUS = "\N{MINUS SIGN}"
UNPAID: dict[str, Any] = {
    "cost_cents": None,
    "cost_items": (),
    "usage_source": "none",
    "status_code": 529,
}

FAILED: dict[str, Any] = {"outcome": "upstream_error", "error_type": "overloaded_error"}


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


def test_many_endpoints_are_left_to_the_settings(ann, control, settings):
    for number in range(7):
        create_endpoint(control, ann.organization_id, f"team {number}")
    page = ann.get("/").text
    assert page.count("export ANTHROPIC_BASE_URL=") == 2 * 5, "shown and copied"
    assert "All endpoints" in page


# -- figures --------------------------------------------------------------------------------------


def test_today_is_set_against_the_same_day_of_the_last_week_until_this_minute(
    ann, record, monkeypatch
):
    monkeypatch.setattr("dashboard.home.pages.clock", SimpleNamespace(now=lambda: NOW))
    record(
        ann.organization_id,
        {"created_at": "2026-03-07T08:59:00.000Z", "cost_cents": Decimal(150)},
        {"created_at": "2026-03-07T09:10:00.000Z", "cost_cents": Decimal(100)},
        {"created_at": "2026-03-07T10:00:00.000Z", "cost_cents": Decimal(9_000)},
        {"created_at": "2026-03-14T01:00:00.000Z", "cost_cents": Decimal(300)},
        {"created_at": "2026-03-14T02:00:00.000Z", "outcome": "upstream_error"} | UNPAID,
    )
    figure = words_of(find_cell(ann.get("/").text, "Today"))
    # Half of the hour is gone, so half of what that hour had cost is set against it.
    assert figure.split() == [
        "Today",
        "Today:",
        "$3.00",
        "+50",
        "%",
        "on",
        "last",
        "Saturday",
        "by",
        "09:30",
        "2",
        "calls,",
        "1",
        "failed",
    ]


def find_cell(page, label):
    """Return a cell of the strip."""
    return page.partition(f"<dt>{label}")[2].partition("</div>")[0].join((label, ""))


def test_the_first_week_has_nothing_to_be_set_against(ann, record):
    record(ann.organization_id, {})
    assert "the first week of calls" in find_cell(ann.get("/").text, "Today")


def test_the_cost_leads_to_what_it_includes(ann, record):
    record(ann.organization_id, {})
    assert '<a href="/help/costs">What the cost includes</a>' in ann.get("/").text


def test_what_of_the_cost_is_estimated_or_not_billed_is_said_below_the_chart(ann, record):
    estimate = {"usage_source": "estimated", "estimated_cents": Decimal(31)}
    record(
        ann.organization_id,
        {"cost_cents": Decimal(1209)},
        {"cost_cents": Decimal(31)} | estimate,
        {"cost_cents": Decimal(1200), "billing": "subscription"},
        {"cost_cents": Decimal(9), "billing": "customer"},
    )
    line = ann.get("/").text.partition('class="as-table"')[2].partition("</p>")[0]
    assert "$0.31 of it estimated." in line
    assert "$12.09 of it not billed to you." in line


def test_calls_that_may_have_been_billed_are_counted_apart(ann, record):
    gone = {"usage_source": "none", "cost_cents": None, "cost_items": ()}
    record(ann.organization_id, gone | {"outcome": "proxy_restarted", "status_code": None})
    assert "1 call without usage may have been billed today." in ann.get("/").text


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
    assert "budget" not in page.partition("Today")[0].partition("1,234 requests")[2]


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
        notice = words_of(person.get("/").text).partition("Today")[0].replace(" .", ".")
        assert "12 requests were refused today because a budget was used up" in notice
        assert "1 request was refused today by the rate limit" in notice
        assert f"{begins} {who}" in notice
        assert "another endpoint" not in notice
    management.budgets.delete(management.find_caller(ann.email), endpoint.id)
    assert "Before its next period begins, you can raise" in words_of(ann.get("/").text)


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
    assert f"Recorder not running {size} " in home
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
    with closing(sqlite3.connect(trace_path(settings.data_dir, ann.organization_id))) as db, db:
        db.execute("delete from usage")
    assert "$0.01" in find_cell(ann.get("/").text, "Today")


def test_the_month_has_what_is_expected_at_its_end_and_what_of_it_is_spend(
    ann, record, monkeypatch
):
    monkeypatch.setattr("dashboard.home.pages.clock", SimpleNamespace(now=lambda: NOW))
    record(
        ann.organization_id, {"created_at": "2026-03-14T08:59:00.000Z", "cost_cents": Decimal(168)}
    )
    cell = find_cell(ann.get("/").text, "March")
    assert '<a href="/?period=month"><span class="vh">March: </span>$1.68</a>' in cell
    assert "expected" not in cell, "there is less than a day of calls"
    record(
        ann.organization_id, {"created_at": "2026-02-10T00:00:00.000Z", "cost_cents": Decimal(500)}
    )
    words = words_of(find_cell(ann.get("/").text, "March"))
    assert "$5.91 expected at its end" in words  # 422.5 hours are left, at a cent each
    assert "February was $5.00" in words
    covered = {"billing": "subscription", "cost_cents": Decimal(32)}
    record(ann.organization_id, {"created_at": "2026-03-14T08:59:00.000Z"} | covered)
    assert "$1.68 of it billed to you" in words_of(find_cell(ann.get("/").text, "March"))


def test_sessions_are_the_newest_or_the_most_expensive_of_the_week(ann, record):
    old = clock.format_ms(clock.now() - timedelta(days=8))
    record(
        ann.organization_id,
        {"session_id": "old", "created_at": old, "cost_cents": Decimal(9_000)},
        *({"session_id": f"s{n}", "cost_cents": Decimal(100 * n)} for n in range(7)),
    )
    lists = {
        order: re.findall(r'<a href="/sessions/(\w+)">', ann.get(f"/?order={order}").text)
        for order in ("newest", "cost")
    }
    assert lists["cost"] == ["s6", "s5", "s4", "s3", "s2", "s1"]
    assert len(lists["newest"]) == 6
    assert "old" not in lists["newest"]


def test_the_page_follows_the_calls_after_those_in_its_figures(ann, record):
    record(ann.organization_id, {}, {}, {})
    assert 'id="live" data-after="3"' in ann.get("/").text


def test_sessions_have_their_credential_and_what_failed_in_them(ann, record, settings, control):
    record(
        ann.organization_id,
        {"session_id": "s", "credential_hmac": "c" * 32},
        {"session_id": "s", "credential_hmac": "c" * 32, "outcome": "upstream_error"} | UNPAID,
    )
    with sqlite3.connect(trace_path(settings.data_dir, ann.organization_id)) as db:
        db.execute("update sessions set failed_tools = 3")
    db.close()
    assert read_session(ann) == ["s", "cccccccc", "2", "4"]
    with control.transaction() as rows:
        credential_names.write(rows, ann.organization_id, "c" * 32, "laptop of Ada")
    assert read_session(ann) == ["s", "laptop of Ada", "2", "4"]


def test_sessions_with_a_call_in_flight_say_so(ann, cid, record, settings):
    record(ann.organization_id, {"session_id": "runs"}, {"session_id": "rests"})
    with closing(Proxy(settings.spool_path)) as proxy:
        proxy.begin(ann.organization_id, b"{}", session_id="runs")
        proxy.begin(cid.organization_id, b"{}", session_id="rests")
        titles = re.findall(
            r'<td class="grow title"><div class="tagged"><a href="/sessions/.*?</td>',
            ann.get("/").text,
        )
    assert sorted(map(words_of, titles)) == ["rests", "runs in flight"]


def test_calls_in_flight_are_counted_and_lead_to_their_list(ann, record, settings):
    record(ann.organization_id, {}, {"outcome": "upstream_error"} | UNPAID)
    with closing(Proxy(settings.spool_path)) as proxy:
        proxy.begin(ann.organization_id, b"{}")
        page = ann.get("/").text
    assert re.search(
        r"2 calls, <a [^>]*>1 failed</a>, <a href=\"/calls\?period=today\" data-flying>1 in flight</a>",
        page,
    )


def read_session(ann):
    """Return title, credential, calls and failures of the first session."""
    part = ann.get("/").text.partition('id="sessions"')[2].partition("</section>")[0]
    heads = [words_of(head) for head in re.findall(r"<th .*?</th>", part)]
    cells = [words_of(cell) for cell in re.findall(r"<td .*?</td>", part)]
    row = dict(zip(heads, cells, strict=False))
    return [row[head] for head in ("Title", "Credential", "Calls", "Failed")]


def test_failures_are_counted_by_type_and_each_leads_to_its_calls(ann, record, monkeypatch):
    record(
        ann.organization_id,
        *[{"outcome": "upstream_error", "status_code": 529, "error_type": "overloaded_error"}] * 2,
        {"outcome": "upstream_interrupted"},
        {"outcome": "client_disconnected"},
        {},
    )
    failures = ann.get("/").text.partition('id="failures"')[2].partition("</section>")[0]
    rows = re.findall(r'<a href="([^"]+)">([^<]+)</a>.*?strong">(\d+)</td>', failures)
    assert [(words, calls) for _, words, calls in rows] == [
        ("529 overloaded_error", "2"),
        ("interrupted", "1"),
    ]
    assert rows[0][0].startswith("/calls?failed=1&amp;error=overloaded_error&")
    ((every, count),) = re.findall(r'<a href="([^"]+)">All (\d+)</a>', failures)
    assert count_list(ann, every) == int(count) == 3
    for address, _, calls in rows:
        assert count_list(ann, address) == int(calls)


def test_failures_are_of_the_days_that_their_list_has(ann, record, monkeypatch):
    for module in ("home.pages", "calls.list_pages"):
        monkeypatch.setattr(f"dashboard.{module}.clock", SimpleNamespace(now=lambda: NOW))
    days = ("2026-03-07T23:00:00.000Z", "2026-03-08T00:00:00.000Z", "2026-03-14T09:00:00.000Z")
    record(ann.organization_id, *({"created_at": each} | UNPAID | FAILED for each in days))
    failures = ann.get("/").text.partition('id="failures"')[2].partition("</section>")[0]
    ((address, calls),) = re.findall(r'<a href="([^"]+)">[^A].*?strong">(\d+)</td>', failures)
    assert count_list(ann, address) == int(calls) == 2
    assert ">All 2</a>" in failures


def count_list(ann, address):
    """Return how many calls the list of an address has."""
    path, _, _ = address.partition("?")
    assert path == "/calls"
    page = ann.get(unescape(address))
    assert page.status_code == 200, page.text
    return page.text.count("<tr data-key=")


def test_a_burst_of_failures_and_an_expensive_session_are_alerts(ann, record):
    at = [clock.format_ms(clock.now() - timedelta(minutes=minute)) for minute in range(12)]
    record(
        ann.organization_id,
        *(
            {"created_at": each, "outcome": "upstream_error", "error_type": "overloaded_error"}
            | UNPAID
            for each in at
        ),
        *({"session_id": f"s{n}", "cost_cents": Decimal(10)} for n in range(20)),
        {
            "session_id": "dear",
            "title_text": "Find out why",
            "tool_count": 1,
            "cost_cents": Decimal(900),
        },
    )
    alerts = ann.get("/").text.partition('<ul class="alerts"')[2].partition("</ul>")[0]
    assert "12 calls failed" in alerts
    assert "529 overloaded_error" in alerts
    assert 'href="/sessions/dear"' in alerts
    assert alerts.index("12 calls failed") < alerts.index("Find out why")


# -- costs ----------------------------------------------------------------------------------------


@pytest.fixture
def weeks(ann, record, monkeypatch):
    """Two weeks of calls of two models, at half past nine of the last day."""
    for module in ("home.pages", "calls.list_pages"):
        monkeypatch.setattr(f"dashboard.{module}.clock", SimpleNamespace(now=lambda: NOW))
    record(
        ann.organization_id,
        *(
            {
                "created_at": f"2026-03-{day:02}T08:00:00.000Z",
                "model": model,
                "cost_cents": Decimal(cents),
                "slug": slug,
                "session_id": f"s{day}",
                "title_text": f"Title {day}",
                "tool_count": 1,
                "duration_ms": 1_000.0,
                "ttfb_ms": 400.0,
            }
            for day, model, cents, slug in (
                (2, "claude-opus-4-5", 100, "one"),
                (3, "claude-haiku-4-5", 40, "two"),
                (9, "claude-opus-4-5", 300, "one"),
                (9, "claude-opus-4-5", 100, "two"),
                (14, "claude-haiku-4-5", 20, "two"),
            )
        ),
    )


def read_table(page):
    """Return the rows of the table beside the chart: the texts of their cells."""
    table = page.partition('<table class="dense"><caption class="vh">')[2].partition("</table>")[0]
    body = table.partition("<tbody>")[2]
    return [words_of(row).split() for row in re.findall(r"<tr>.*?</tr>", body, re.S)]


def test_the_figures_of_the_chart_have_a_column_for_each_group_that_has_some(ann, weeks, record):
    day = {"created_at": "2026-03-09T08:00:00.000Z"}
    record(ann.organization_id, day | UNPAID | {"model": "atlas-preview"})

    def read_figures(address):
        page = ann.get(address).text.partition('aria-label="The figures of the chart"')[2]
        head, *rows = re.findall(r"<tr>.*?</tr>", page.partition("</table>")[0], re.S)
        return [re.findall(r"[^<>]+(?=</(?:th|td|a)>)", each) for each in (head, rows[5])]

    assert read_figures("/") == [
        ["opus-4-5", "haiku-4-5", "All"],
        ["Mon 9 Mar", "$4.00", "$4.00"],
    ]
    assert "atlas-preview" in read_figures("/?measure=calls")[0]


def test_this_week_is_set_against_the_week_before_by_group(ann, weeks):
    assert read_table(ann.get("/").text) == [
        ["opus-4-5", "$4.00", "$1.00", "+$3.00", "+300", "%", "2", "50", "%"],
        ["haiku-4-5", "$0.20", "$0.40", f"{MINUS}$0.20", f"{MINUS}50", "%", "1", "50", "%"],
        ["All", "$4.20", "$1.40", "+$2.80", "+200", "%", "3", "50", "%"],
    ]
    assert read_table(ann.get("/?by=endpoint&measure=calls&period=7d").text) == [
        ["two", "2", "1", "+1", "+100", "%", "0", "50", "%"],
        ["one", "1", "1", "0", "0", "%", "0", "50", "%"],
        ["All", "3", "2", "+1", "+50", "%", "0", "50", "%"],
    ]


@pytest.mark.parametrize(("by", "is_said"), [("user", True), ("project", True), ("client", False)])
def test_users_and_projects_are_said_to_be_named_by_clients(ann, weeks, by, is_said):
    assert ("Clients name them, and nothing checks it." in ann.get(f"/?by={by}").text) is is_said


def test_a_day_leads_to_its_calls_and_has_its_values_for_the_tip(ann, weeks):
    page = Page(ann.get("/").text)
    columns = [a.attributes for a in page.find("a") if a.is_within("svg")]
    assert len(columns) == 14
    by_name = {each["aria-label"]: each for each in columns}
    monday = by_name["Mon 9 Mar, $4.00"]
    assert count_list(ann, monday["href"]) == 2
    assert json.loads(monday["data-tip"])["rows"] == [["opus-4-5", "$4.00"]]
    # Of the seven days before, none had a call after ten o'clock.
    today = by_name["Sat 14 Mar, $0.20"]
    assert json.loads(today["data-tip"])["rows"][-1] == ["expected by midnight", "$0.20"]
    assert by_name["Sun 8 Mar, $0.00"]["data-tip"]


def test_each_group_leads_to_just_its_calls(ann, weeks, subtests):
    for by in ("model", "endpoint", "client", "credential", "billing", "session"):
        with subtests.test(by):
            check_groups(ann, by)


def check_groups(ann, by):
    page = ann.get(f"/?by={by}&measure=calls&period=30d").text
    table = page.partition('<table class="dense"><caption class="vh">')[2].partition("</table>")[0]
    rows = re.findall(r'<a href="(/calls[^"]+)">.*?strong">(\d+)</td>', table, re.S)
    assert len(rows) == {"model": 2, "endpoint": 2, "session": 0}.get(by, 1)
    for address, calls in rows:
        assert count_list(ann, address) == int(calls)


def test_sessions_are_named_by_their_titles_and_lead_to_their_pages(ann, weeks):
    page = ann.get("/?by=session").text
    assert '<a href="/sessions/s9"><span class="sw s1"></span> <bdi>Title 9</bdi></a>' in page


@pytest.mark.parametrize("by", ["session", "agent"])
def test_the_largest_of_many_sessions_are_those_of_all(ann, record, monkeypatch, subtests, by):
    monkeypatch.setattr("dashboard.home.pages.clock", SimpleNamespace(now=lambda: NOW))
    record(
        ann.organization_id,
        *(
            {
                f"{by}_id": f"name{number}",
                "created_at": f"2026-03-{1 + number % 14:02}T08:00:00.000Z",
                "cost_cents": Decimal(100 + number * 7 % 31),
                "output_tokens": number * 11 % 37,
            }
            for number in range(20)
            for _ in range(1 + number * 5 % 7)
        ),
        {"created_at": "2026-03-13T08:00:00.000Z"},
    )
    for measure in ("cost", "tokens", "calls"):
        with subtests.test(measure):
            check_largest(ann, monkeypatch, by, measure)


def check_largest(ann, monkeypatch, by, measure):
    pages = []
    for largest in (6, 1_000):  # six are shown
        monkeypatch.setattr("store.traces.sums.overview_reader.LARGEST", largest)
        pages.append(ann.get(f"/?by={by}&measure={measure}").text)
    assert read_table(pages[0]) == read_table(pages[1])
    assert [row[0] for row in read_table(pages[0])][-1] == "All"
    assert len(read_table(pages[0])) == 8
    charts = [page.partition('class="chart"')[2].partition("</svg>")[0] for page in pages]
    assert charts[0] == charts[1] != ""


def test_a_filter_holds_for_chart_and_table_and_can_be_removed(ann, weeks):
    page = ann.get("/?endpoint=two").text
    assert [row[:2] for row in read_table(page)] == [
        ["opus-4-5", "$1.00"], ["haiku-4-5", "$0.20"], ["All", "$1.20"]
    ]  # fmt: skip
    chip = page.partition('aria-label="Filters"')[2].partition("</div>")[0]
    assert "Endpoint <b>two</b>" in chip
    assert 'class="x" href="/"' in chip
    assert "$5.60" in find_cell(page, "March"), "the strip is about all calls"


def test_the_form_sends_two_days_and_what_has_no_calls_says_so(ann, weeks):
    page = ann.get("/?from=2026-03-04&to=2026-03-05&model=&endpoint=two").text
    assert "There are no calls in this period with these filters." in page
    page = ann.get("/?from=2026-03-02&to=2026-03-03&by=endpoint&model=")
    assert "2026-03-02 to 2026-03-03" in page.text


def test_tokens_are_stacked_by_group_or_by_kind(ann, weeks):
    assert read_table(ann.get("/?measure=tokens").text)[0][:2] == ["opus-4-5", "200"]
    rows = read_table(ann.get("/?measure=tokens&by=kind").text)
    assert [row[-4:] for row in rows] == [
        ["60", "40", "+50", "%"], ["30", "20", "+50", "%"],
        ["90", "60", "+50", "%"], ["120", "80", "+50", "%"],
    ]  # fmt: skip


def test_times_are_medians_of_days_and_groups(ann, weeks):
    page = ann.get("/?measure=time").text
    columns = [a.attributes for a in Page(page).find("a") if a.is_within("svg")]
    tips = [json.loads(each["data-tip"]) for each in columns]
    (day,) = [tip for tip in tips if tip["head"].startswith("Mon 9 Mar")]
    assert [name for name, _ in day["rows"]] == ["First byte", "From there to the end"]
    milliseconds = [float(words.split()[0]) for _, words in day["rows"]]
    assert milliseconds == [pytest.approx(400, rel=0.05), pytest.approx(600, rel=0.1)]
    assert read_table(page)[0][0] == "opus-4-5"
    rows = re.findall(r'<a href="([^"]+)"><bdi>[^<]+</bdi></a></th>.*?(\d+)</td></tr>', page)
    assert [count_list(ann, address) for address, _ in rows] == [3, 2]
    assert [int(calls) for _, calls in rows] == [3, 2]


def test_the_mean_cost_of_sessions_is_that_of_those_that_ended(ann, weeks):
    page = ann.get("/?measure=session").text
    assert read_table(page)[0] == ["A", "session", "$2.10", "$0.70", "+$1.40", "+200", "%"]
    assert "Mon 9 Mar, $4.00" in page


def test_the_next_cheaper_model_is_compared_at_list_prices(ann, weeks):
    page = ann.get("/").text
    compared = page.partition("The same calls with another model")[2].partition("</table>")[0]
    rows = [words_of(row).split() for row in re.findall(r"<tr>(?!<th).*?</tr>", compared)]
    assert rows[0] == ["As", "they", "were", "$4.20"]
    # Opus 4.5 has five times the rates of Haiku 4.5, so four fifths of $4.00 are saved.
    assert rows[1] == ["opus-4-5", "as", "haiku-4-5", "$1.00", f"{MINUS}76", "%"]
    assert 'href="/savings/models?period=7d"' in page


def test_the_figures_of_the_chart_are_sql_that_runs(ann, weeks):
    for query in ("", "?by=agent", "?period=today&by=client", "?by=endpoint&model=claude-opus-4-5"):
        page = ann.get(f"/{query}").text
        (address,) = re.findall(r'<a href="([^"]+)">CSV<', page)
        response = ann.get(unescape(address))
        assert response.status_code == 200, response.text
        assert "cost_cents" in response.text.splitlines()[0]


@pytest.mark.parametrize("query", ["period=8d", "by=x", "measure=x", f"model={'x' * 600}"])
def test_what_is_not_valid_is_refused_with_the_remedy(ann, query):
    response = ann.get(f"/?{query}")
    assert response.status_code == 400
    assert " must " in response.text


def test_reading_calls_stops_after_a_while_and_says_so(ann, weeks, monkeypatch):
    monkeypatch.setattr(overview_reader, "ROWS_TIME_S", -1)
    monkeypatch.setattr("store.traces.sums.overview_calls._PROGRESS_STEPS", 1)
    assert "Not all calls were read" in ann.get("/?agent=(none)").text
    assert "Not all calls were read" not in ann.get("/?by=session").text


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
        assert pages._BUSY in answer.text
    finally:
        locked.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Recorder up to date"),
        ({"waiting": 1}, "1 call waits to be stored"),
        ({"waiting": 7, "stuck_organizations": 1}, "Calls wait to be stored"),
        ({"beat_s": time.monotonic() - 3_600}, "The recorder is not running"),
    ],
)
def test_the_recorders_state_is_told(ann, record, settings, changes, words):
    record(ann.organization_id, {})
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
    assert (
        '<a href="/calls?period=month&amp;product=batch">1 result of batches</a>: $0.3400' in part
    )
    assert '<a href="/traces/upstream_objects?kind=session">1 managed session</a>: $1.90' in part
    assert "$2.00 by upstream" in part
    assert ann.get("/traces/upstream_objects?kind=session").status_code == 200
