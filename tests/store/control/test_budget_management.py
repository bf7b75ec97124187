from datetime import UTC, datetime
from decimal import Decimal
from functools import partial

import pytest

from metering.attribution import Part
from runtime import clock
from runtime.errors import (
    InvalidInputError,
    LimitReachedError,
    NotFoundError,
)
from runtime.webhook_rule import WebhookRule
from store.control import activity_log, budgets
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


SHOP = Part("project", "shop")


def test_parts_have_budgets_besides_and_each_has_its_own_spend(manage, people, endpoint, tmp_path):
    with TraceDatabase(trace_path(tmp_path, people.ann.organization_id)) as traces:
        for cents, said in (
            (100, {"project": "shop", "tags": '["env:prod", "nightly"]'}),
            (30, {"project": "shop", "billing": "subscription"}),
            (7, {"project": "web", "attributed_user": "ann"}),
        ):
            traces.insert(
                [
                    make_entry(
                        proxy_endpoint_id=endpoint.id,
                        created_at=clock.format_ms(NOW),
                        cost_cents=Decimal(cents),
                        **said,
                    )
                ]
            )
    put_part = partial(manage.budgets.put, people.ann, period="week", limit_usd=2, action="warn")
    parts = (SHOP, Part("tag", "env:prod"), Part("tag", "nightly"), Part("user", "ann"))
    for where in (None, "ci"):
        spent = [put_part(where, of=part).spent_usd for part in parts]
        assert spent == [1, 1, 1, 0.07]
    assert put_part(None, of=Part("project", "none")).spent_usd == 0
    assert put(manage, people.ann, None).spent_usd == 1.07
    assert manage.budgets.get(people.bob, "ci", SHOP).budget.of == SHOP
    manage.budgets.delete(people.ann, "ci", SHOP)
    with pytest.raises(NotFoundError, match="no budget of the project shop"):
        manage.budgets.get(people.bob, "ci", SHOP)
    assert put_part(None, of=SHOP, limit_usd=3).budget.limit_usd == 3
    assert len(manage.budgets.list_all(people.bob)) == 9


def test_the_only_budget_of_a_part_is_found_without_naming_it(manage, people):
    manage.budgets.put(people.ann, None, period="day", limit_usd=1, action="warn", of=SHOP)
    assert manage.budgets.get(people.ann, None).budget.of == SHOP
    put(manage, people.ann, None)
    assert manage.budgets.get(people.ann, None).budget.of is None
    manage.budgets.delete(people.ann, None)
    with pytest.raises(NotFoundError):  # what is deleted is named
        manage.budgets.delete(people.ann, None)


def test_a_part_only_warns_and_there_are_so_many_at_most(manage, people, monkeypatch):
    fields = {"period": "day", "limit_usd": 1}
    with pytest.raises(InvalidInputError, match="only warns, because clients name"):
        manage.budgets.put(people.ann, None, action="refuse", of=SHOP, **fields)
    monkeypatch.setattr(budgets, "MAX_PARTS", 1)
    for _ in range(2):
        manage.budgets.put(people.ann, None, action="warn", of=SHOP, **fields)
    with pytest.raises(LimitReachedError):
        manage.budgets.put(people.ann, None, action="warn", of=Part("user", "ann"), **fields)


@pytest.mark.parametrize(
    "warn_at", [[0], [-0.1], [1.01], [float("nan")], [0.1 * n for n in range(1, 13)]]
)
def test_what_no_budget_can_warn_at_is_refused(manage, people, warn_at):
    with pytest.raises(InvalidInputError, match="share"):
        manage.budgets.put(
            people.ann, None, period="day", limit_usd=1, action="warn", warn_at=warn_at
        )


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
