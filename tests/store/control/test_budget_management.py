from datetime import UTC, datetime
from decimal import Decimal

import pytest

from runtime import clock
from runtime.errors import ForbiddenError, InvalidInputError, NotFoundError
from runtime.webhook_rule import WebhookRule
from store.control import activity_log
from store.control.management import Management
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry

NOW = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)


@pytest.fixture
def manage(control, tmp_path):
    return Management(control, tmp_path, lambda: NOW)


@pytest.fixture
def endpoint(manage, people):
    return manage.create_endpoint(people.ann, "CI", "ci")


def record(tmp_path, caller, endpoint_id, cents, at=NOW):
    with TraceDatabase(trace_path(tmp_path, caller.organization_id)) as traces:
        traces.insert(
            [
                make_entry(
                    proxy_endpoint_id=endpoint_id,
                    created_at=clock.format_ms(at),
                    cost_cents=Decimal(cents),
                )
            ]
        )


def put(manage, caller, endpoint="ci", *, limit_usd=50.0, period="day", action="refuse"):
    return manage.budgets.put(caller, endpoint, period=period, limit_usd=limit_usd, action=action)


def test_a_budget_has_what_was_spent_in_its_period(manage, people, endpoint, tmp_path):
    record(tmp_path, people.ann, endpoint.id, 2500)
    record(tmp_path, people.ann, "deleted", 1000)
    assert put(manage, people.ann).spent_usd == 25
    status = put(manage, people.ann, None, limit_usd=30, period="month")
    assert (status.spent_usd, status.is_reached) == (35, True)
    # It is the 23rd there, and nothing was spent yet since its midnight at 23:00 UTC but this.
    manage.budgets.set_time_zone(people.ann, "Europe/Berlin")
    record(tmp_path, people.ann, endpoint.id, 100, NOW.replace(hour=22))
    status = manage.budgets.get(people.bob, "ci")
    assert (status.spent_usd, clock.format_seconds(status.span.start)) == (
        25,
        "2026-11-22T23:00:00Z",
    )


def test_a_budget_is_replaced_and_deleted(manage, people, endpoint):
    first = put(manage, people.ann).budget
    second = put(manage, people.ann, limit_usd=5, period="month", action="warn").budget
    assert (second.id, second.created_at) == (first.id, first.created_at)
    assert (second.limit_usd, second.period, second.action) == (5, "month", "warn")
    assert manage.budgets.list(people.bob).items == [second]
    manage.budgets.delete(people.ann, endpoint.id)
    with pytest.raises(NotFoundError, match="has no budget"):
        manage.budgets.get(people.ann, "ci")
    with pytest.raises(NotFoundError, match="the organisation has no budget"):
        manage.budgets.delete(people.ann, None)


def test_members_read_budgets_and_owners_change_them(manage, people, endpoint):
    put(manage, people.ann)
    assert manage.budgets.get(people.bob, "ci").budget.limit_usd == 50
    for change in (
        lambda: put(manage, people.bob),
        lambda: manage.budgets.delete(people.bob, "ci"),
        lambda: manage.budgets.set_time_zone(people.bob, "UTC"),
        lambda: manage.budgets.put_webhook(people.bob, "https://a.example"),
        lambda: manage.budgets.delete_webhook(people.bob),
        lambda: manage.budgets.find_webhook(people.bob),
        lambda: manage.budgets.list_deliveries(people.bob),
    ):
        with pytest.raises(ForbiddenError, match="only an owner"):
            change()


def test_budgets_stay_within_an_organisation(manage, people, endpoint):
    put(manage, people.ann)
    put(manage, people.ann, None)
    assert manage.budgets.list(people.cid).items == []
    assert manage.budgets.list_by_subject(people.cid) == {}
    for call in (manage.budgets.get, manage.budgets.delete, manage.budgets.find):
        with pytest.raises(NotFoundError):
            call(people.cid, endpoint.id)
    with pytest.raises(NotFoundError):
        put(manage, people.cid, endpoint.id)
    with pytest.raises(NotFoundError):
        manage.budgets.get(people.cid, None)
    assert manage.budgets.find_webhook(people.cid) is None


@pytest.mark.parametrize("limit_usd", [0, -1, float("nan"), float("inf"), 1e10])
def test_a_limit_is_an_amount_above_zero(manage, people, endpoint, limit_usd):
    with pytest.raises(InvalidInputError, match="dollars above 0"):
        put(manage, people.ann, limit_usd=limit_usd)


@pytest.mark.parametrize("name", ["Berlin", "", "../UTC", "localtime", "Europe/Berlin\0"])
def test_a_time_zone_is_one_of_the_list(manage, people, name):
    with pytest.raises(InvalidInputError, match="is not a time zone"):
        manage.budgets.set_time_zone(people.ann, name)


def test_a_webhook_has_an_address_that_the_rule_allows(control, tmp_path, people):
    manage = Management(control, tmp_path, webhook_rule=WebhookRule(allows_loopback=True))
    first = manage.budgets.put_webhook(people.ann, "http://127.0.0.1:9/x")
    second = manage.budgets.put_webhook(people.ann, "https://ann.example/secret-path")
    assert manage.budgets.find_webhook(people.ann) == second
    assert first.secret != second.secret
    with pytest.raises(InvalidInputError, match="needs https"):
        manage.budgets.put_webhook(people.ann, "http://ann.example")
    manage.budgets.delete_webhook(people.ann)
    with pytest.raises(NotFoundError):
        manage.budgets.delete_webhook(people.ann)
    with control.reading() as db:
        logged = activity_log.read(db, people.ann.organization_id)
    assert [each.details.get("name") for each in logged[:3]] == [
        "ann.example",
        "ann.example",
        "127.0.0.1",
    ]


def test_a_database_that_cannot_be_read_leaves_the_budget(manage, people, endpoint, tmp_path):
    put(manage, people.ann)
    path = trace_path(tmp_path, people.ann.organization_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database" * 1000)
    status = manage.budgets.find(people.ann, "ci")
    assert status is not None
    assert status.spend is None
