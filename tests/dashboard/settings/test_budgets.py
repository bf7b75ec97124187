"""Budgets in the settings: their forms, bars and alerts; and that nobody sees another's."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest

from dashboard.settings import alerts as alert_settings
from metering.budget_periods import Span
from runtime import clock
from store.control import budget_alerts, deliveries
from store.control.management import Management
from store.traces.database import TraceDatabase
from tests.dashboard.pages import Page
from tests.proxy_endpoints import create_endpoint
from tests.store.traffic import make_entry


@pytest.fixture
def management(control, settings):
    return Management(control, settings.data_dir)


@pytest.fixture
def endpoint(control, ann):
    return create_endpoint(control, ann.organization_id, "team")


@pytest.fixture
def spend(ann, endpoint):
    def spend(cents):
        with TraceDatabase(ann.path) as traces:
            traces.insert(
                [
                    make_entry(
                        proxy_endpoint_id=endpoint.id,
                        created_at=clock.format_ms(clock.now()),
                        cost_cents=Decimal(cents),
                    )
                ]
            )

    return spend


def text_of(response):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", response.text))


def limits(management, person):
    found = management.budgets.list(management.find_caller(person.email)).items
    return {(each.slug, each.period, each.limit_usd, each.action) for each in found}


def test_an_owner_sets_changes_and_deletes_the_budget_of_an_endpoint(
    ann, endpoint, management, spend
):
    here = f"/settings/endpoints/{endpoint.id}"
    spend(1250)
    response = ann.post(f"{here}/budget", limit_usd="$1,000", period="month", action="warn")
    assert response.headers["location"] == "/settings/endpoints?done=budget-set"
    ann.post(f"{here}/budget", limit_usd="50", period="day", action="refuse")
    assert limits(management, ann) == {("team", "day", 50.0, "refuse")}
    response = ann.get(here)
    assert "$12.50 of $50.00 this day (25%)" in text_of(response)
    (bar,) = Page(response.text).find("meter")
    assert bar.attributes["value"] == "25.0"
    response = ann.get("/settings/budgets")
    assert "team $12.50 of $50.00 a day calls are refused" in text_of(response)
    assert 'aria-label="25 % used"' in response.text
    assert "$50.00 a day, then refused" in text_of(ann.get("/settings/endpoints"))
    assert 'value="50.00"' in ann.get(here).text
    response = ann.post(f"{here}/budget/delete")
    assert response.headers["location"] == "/settings/endpoints?done=budget-deleted"
    assert limits(management, ann) == set()
    assert ann.post(f"{here}/budget/delete").status_code == 404


def test_an_owner_sets_changes_and_deletes_the_budget_of_a_project(ann, spend):
    form = {"kind": "project", "of": "shop", "limit_usd": "5", "period": "week"}
    response = ann.post("/settings/budgets/part", warn_at="50%, 90", **form)
    assert response.headers["location"] == "/settings/budgets?done=budget-set"
    listed = ann.get("/settings/budgets")
    assert "project shop $0.00 of $5.00 a week owners are told and at 50%, 90%" in text_of(listed)
    (link,) = [
        each.attributes["href"]
        for each in Page(listed.text).find("a")
        if "of=shop" in (each.attributes.get("href") or "")
    ]
    page = ann.get(link)
    assert 'value="5.00"' in page.text
    assert 'value="50%, 90%"' in page.text
    assert "$0 of $5.00 this week" in text_of(page)
    for wrong in ({"of": "Ann Lee"}, {"warn_at": "lots"}, {"warn_at": "120%"}, {"kind": "model"}):
        assert ann.post("/settings/budgets/part", **(form | wrong)).status_code == 400
    assert ann.post("/settings/budgets/part/delete", kind="project", of="web").status_code == 404
    assert ann.post("/settings/budgets/part/delete", **form).status_code == 303
    assert "project shop" not in text_of(ann.get("/settings/budgets"))


def test_a_budget_that_is_used_up_says_what_that_means(ann, endpoint, spend):
    here = f"/settings/endpoints/{endpoint.id}"
    spend(5000)
    ann.post(f"{here}/budget", limit_usd="50", period="day", action="refuse")
    assert "calls are refused" in text_of(ann.get("/settings/budgets"))
    ann.post(f"{here}/budget", limit_usd="40", period="day", action="warn")
    page = ann.get(here)
    assert "(125%) used up" in text_of(page)
    assert "at 100% calls go on" in text_of(page)
    assert Page(page.text).find("meter")[0].attributes["value"] == "100.0"


def test_the_home_page_has_the_budgets_that_are_used_most(ann, endpoint, spend):
    spend(2500)
    ann.post("/settings/budgets", limit_usd="30", period="day", action="warn")
    ann.post(
        f"/settings/endpoints/{endpoint.id}/budget", limit_usd="50", period="day", action="warn"
    )
    page = text_of(ann.get("/"))
    assert page.index("All83 %$25.00 of $30.00 today") < page.index(
        "team50 %$25.00 of $50.00 today"
    )


def test_an_owner_sets_the_budget_and_time_zone_of_the_organisation(ann, management):
    response = ann.post("/settings/budgets", limit_usd="0.5", period="month", action="refuse")
    assert response.headers["location"] == "/settings/budgets?done=budget-set"
    response = ann.post("/settings/budgets/time-zone", time_zone="Asia/Kolkata")
    assert response.headers["location"] == "/settings/budgets?done=time-zone-set"
    page = text_of(ann.get("/settings/budgets"))
    assert "All endpoints $0.00 of $0.50 a month calls are refused" in page
    assert "00:00 IST" in page
    ann.post("/settings/budgets/delete")
    assert limits(management, ann) == set()


@pytest.mark.parametrize(
    ("path", "fields", "words", "field"),
    [
        ("", {"limit_usd": "much"}, "Write an amount of dollars", "organization-budget-limit_usd"),
        ("", {"limit_usd": "0"}, "dollars above 0", "organization-budget-limit_usd"),
        ("/time-zone", {"time_zone": "Berlin"}, "is not a time zone", "time-zone-time_zone"),
        ("/webhook", {"url": "http://a.example"}, "needs https", "webhook-url"),
        ("/webhook", {"url": "https://10.0.0.1/"}, "not a public address", "webhook-url"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(ann, path, fields, words, field):
    given = {"period": "day", "action": "warn"} if path == "" else {}
    response = ann.post(f"/settings/budgets{path}", **given, **fields)
    assert response.status_code == 400
    (control,) = [
        each for each in Page(response.text).elements if each.attributes.get("id") == field
    ]
    assert control.attributes["aria-invalid"] == "true"
    assert control.attributes["value"] == next(iter(fields.values()))
    assert words in text_of(response).replace("&#39;", "'")


def test_a_wrong_budget_of_an_endpoint_is_answered_on_its_page(ann, endpoint):
    response = ann.post(
        f"/settings/endpoints/{endpoint.id}/budget", limit_usd="-1", period="year", action="warn"
    )
    assert response.status_code == 400
    assert "Period is one of day, week, month." in text_of(response)
    assert "Limit in dollars" in text_of(response)
    assert Page(response.text).find("h2")[0].text == "team"


def test_the_secret_of_a_webhook_is_shown_once(ann, management):
    response = ann.post("/settings/budgets/webhook", url="https://hooks.example.org/team")
    assert response.status_code == 201
    assert re.search(r"whsec_[A-Za-z0-9+/]{43}=", response.text)
    page = ann.get("/settings/budgets").text
    assert "whsec_" not in page
    assert 'value="https://hooks.example.org/team"' in page
    response = ann.post("/settings/budgets/webhook/delete")
    assert response.headers["location"] == "/settings/budgets?done=webhook-deleted"
    assert management.budgets.find_webhook(management.find_caller(ann.email)) is None


def test_a_member_sees_budgets_and_no_forms_for_them(ann, bob, endpoint, management):
    ann.post("/settings/budgets/webhook", url="https://hooks.example.org/team")
    ann.post(
        f"/settings/endpoints/{endpoint.id}/budget", limit_usd="5", period="day", action="warn"
    )
    here = f"/settings/endpoints/{endpoint.id}"
    for page, words in (("/settings/budgets", "of $5.00 a day"), (here, "of $5.00 this day")):
        text = bob.get(page).text
        assert words in text_of(bob.get(page))
        assert "/budget" not in re.findall(r'action="([^"]*)"', text)
        assert "hooks.example.org" not in text
    for path, fields in (
        ("/settings/budgets", {"limit_usd": "5", "period": "day", "action": "warn"}),
        ("/settings/budgets/delete", {}),
        ("/settings/budgets/time-zone", {"time_zone": "UTC"}),
        ("/settings/budgets/webhook", {"url": "https://a.example"}),
        ("/settings/budgets/webhook/delete", {}),
        (f"/settings/endpoints/{endpoint.id}/budget/delete", {}),
    ):
        assert bob.post(path, **fields).status_code == 403, path
    assert limits(management, ann) == {("team", "day", 5.0, "warn")}


def test_nobody_reaches_the_budgets_of_another_organisation(ann, cid, endpoint, management):
    ann.post(
        f"/settings/endpoints/{endpoint.id}/budget", limit_usd="5", period="day", action="warn"
    )
    ann.post("/settings/budgets", limit_usd="7", period="day", action="warn")
    here = f"/settings/endpoints/{endpoint.id}/budget"
    fields = {"limit_usd": "1", "period": "day", "action": "refuse"}
    assert cid.post(here, **fields).status_code == 404
    assert cid.post(f"{here}/delete").status_code == 404
    cid.post("/settings/budgets/delete")
    assert "of $7.00" not in text_of(cid.get("/settings/budgets"))
    assert len(limits(management, ann)) == 2


def test_owners_see_where_alerts_went(ann, bob, management, control):
    ann.post("/settings/budgets", limit_usd="7", period="day", action="warn")
    (budget,) = management.budgets.list(management.find_caller(ann.email)).items
    span = Span(clock.now(), clock.now() + timedelta(days=1))
    with control.transaction() as db:
        budget_alerts.make_alert(db, budget, span, 7, clock.now())
        (delivery,) = deliveries.list_due(db, clock.now(), 10)
        deliveries.note_failed(db, delivery, "it responded with 500", clock.now())
    page = text_of(ann.get("/settings/budgets"))
    assert "organisation: 100 % of $7.00 a day mail ann@example.org" in page
    assert "it responded with 500; tried again at" in page
    activity = text_of(ann.get("/settings/security"))
    assert "Taximeter reported a used-up budget of the organisation (100%)" in activity
    assert "ann@example.org mail" not in text_of(bob.get("/settings/budgets"))
    assert "responded with 500" not in bob.get("/settings/budgets").text


def words_of_alerts(person):
    return text_of(person.get("/settings/budgets")).replace("&#39;", "'")


def test_an_owner_adds_tries_and_deletes_an_alert(ann, bob, monkeypatch):
    monkeypatch.setattr(alert_settings, "LOOKS", 0)
    form = {"kind": "window", "threshold": "90%", "channel": "webhook", "format": "slack"}
    url = "https://hooks.example.org/services/secret"
    assert "Send a test" not in words_of_alerts(ann)
    response = ann.post("/settings/budgets/alerts", url=url, **form)
    assert response.headers["location"] == "/settings/budgets?done=alert-added"
    assert f"90% or more of a subscription's window is used {url} Slack never" in words_of_alerts(
        ann
    )
    assert "services/secret" not in bob.get("/settings/budgets").text
    paths = re.findall(
        r'action="(/settings/budgets/alerts/[^"]+)"', ann.get("/settings/budgets").text
    )
    test, delete = paths
    response = ann.post(test)
    assert response.headers["location"] == "/settings/budgets?done=test-waits"
    assert (
        f"A test: this is what you get when 90% or more of a subscription's window is used. webhook {url} waits"
        in words_of_alerts(ann)
    )
    assert bob.post(test).status_code == bob.post(delete).status_code == 403
    assert ann.post(delete).headers["location"] == "/settings/budgets?done=alert-deleted"
    assert ann.post(delete).status_code == 404


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"threshold": "much"}, "threshold", "Write a number such as 20"),
        ({"threshold": "90%"}, "threshold", "Write a number such as 20"),
        ({"kind": "window", "threshold": "x"}, "threshold", "Write a percentage such as 90%"),
        ({"channel": "webhook"}, "url", "has no webhook"),
        ({"channel": "webhook", "url": "http://a.example"}, "url", "needs https"),
        ({"kind": "hour"}, "", "Kind is one of"),
    ],
)
def test_a_wrong_alert_is_answered_on_its_page(ann, changes, field, words):
    form = {"kind": "day_cost", "threshold": "50", "channel": "mail", "format": "plain"} | changes
    response = ann.post("/settings/budgets/alerts", **form)
    assert response.status_code == 400
    assert words in text_of(response)
    assert ('aria-invalid="true"' in response.text) is bool(field)


def test_the_form_proposes_a_threshold_for_a_day(ann):
    assert "proposed" not in ann.get("/settings/budgets/alert").text
    now = clock.now()
    with TraceDatabase(ann.path) as traces:
        for week in range(1, 5):
            at = clock.format_ms(now - timedelta(days=7 * week))
            traces.insert([make_entry(created_at=at, cost_cents=Decimal(1_000 + week))])
    page = ann.get("/settings/budgets/alert")
    assert f"In the median of 4 weeks, a {now:%A} cost $10.03; proposed is twice that." in text_of(
        page
    )
    assert 'value="20"' in page.text
