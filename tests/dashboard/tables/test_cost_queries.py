"""The canned queries that answer what was spent, by whom, and what was not billed."""

from decimal import Decimal

import pytest

from runtime import clock
from tests.store.traffic import make_item


@pytest.fixture
def read(client, ann):
    """Returns the rows of a query over some calls of today."""
    advice = make_item(model="advisor", component="output", quantity=7, cents=Decimal(400))
    declined = make_item(model="m2", cents=Decimal(0), unbilled_reason="refused_before_output")
    key = {"client": "python/1", "credential_hmac": "c1", "billing": "api_key", "slug": "reports"}
    plan = {"client": "claude-cli/2", "credential_hmac": "c2", "billing": "subscription"}
    ann.record(
        {"model": "m1", "cost_cents": Decimal(100), **plan},
        {"model": "m1", "cost_cents": Decimal(200), **plan, "overage": True},
        {"model": "m1", "cost_items": (make_item(model="m1", cents=Decimal(50)), advice),
         "cost_cents": Decimal(450), **key},
        {"model": "m2", "cost_items": (declined,), "cost_cents": Decimal(0), **key,
         "stop_reason": "refusal", "refusal_category": "cyber"},
        {"model": "m2", "cost_cents": Decimal(3), **key, "stop_reason": "refusal"},
        {"model": "m3", "cost_cents": None, **key, "client": None, "credential_hmac": None},
        created_at=clock.format_ms(clock.now()),
    )  # fmt: skip

    async def read_one(name):
        address = f"/traces/{name}.json?_shape=array"
        return (await client.get(address, headers=ann.cookie)).json()

    return read_one


def costs(rows, name):
    return [
        (row[name], row["calls"], row["cost_usd"], row["spend_usd"], row["subscription_value_usd"])
        for row in rows
    ]


async def test_each_model_has_the_cost_of_the_passes_that_it_ran(read):
    assert costs(await read("cost_by_model"), "model") == [
        ("advisor", 0, 4.0, 4.0, 0.0),
        ("m1", 3, 3.5, 2.5, 1.0),
        ("m2", 2, 0.03, 0.03, 0.0),
        ("m3", 1, None, 0.0, 0.0),
    ]


async def test_spend_and_value_are_apart_in_every_query_of_costs(ann, read):
    paid = {"billing": "customer", "cost_cents": Decimal(900)}
    ann.record(paid, created_at=clock.format_ms(clock.now()))
    for of in ("day_and_model", "model", "endpoint", "client", "credential"):
        rows = await read(f"cost_by_{of}")
        assert sum(row["spend_usd"] for row in rows) == pytest.approx(6.53), of
        assert sum(row["subscription_value_usd"] for row in rows) == 1, of
        assert sum(row["customer_value_usd"] for row in rows) == 9, of


async def test_a_session_has_the_value_that_a_subscription_covered(ann, read):
    plan = {"session_id": "s1", "billing": "subscription", "cost_cents": Decimal(100)}
    paid = plan | {"billing": "customer"}
    ann.record(plan, plan | {"overage": True}, paid, created_at=clock.format_ms(clock.now()))
    (row,) = await read("cost_by_session")
    assert (row["cost_usd"], row["subscription_value_usd"]) == (3.0, 1.0)
    assert row["customer_value_usd"] == 1.0


async def test_each_client_has_what_it_spent_and_what_a_subscription_covered(read):
    assert costs(await read("cost_by_client"), "client") == [
        ("python", 3, 4.53, 4.53, 0.0),
        ("claude-cli", 2, 3.0, 2.0, 1.0),
        ("(none named)", 1, 0.0, 0.0, 0.0),
    ]


async def test_each_credential_is_named_with_the_endpoints_and_clients_that_used_it(read):
    rows = await read("cost_by_credential")
    assert costs(rows, "credential_hmac") == [
        ("c1", 3, 4.53, 4.53, 0.0),
        ("c2", 2, 3.0, 2.0, 1.0),
        (None, 1, 0.0, 0.0, 0.0),
    ]
    assert [(row["endpoints"], row["clients"]) for row in rows[:2]] == [
        ("reports", "python"),
        ("default", "claude-cli"),
    ]


async def test_the_heading_of_figures_stands_above_them_though_the_first_is_not_known(
    client, ann, read
):
    sql = "select null as first union all select 5 union all select 6"
    page = (await client.get("/traces", params={"sql": sql}, headers=ann.cookie)).text
    assert '<th role="columnheader" class="col-first type-int" scope="col">' in page


async def test_calls_without_a_model_are_named_in_the_latencies(client, ann, read):
    ann.record({"model": None, "ttfb_ms": 5.0}, created_at=clock.format_ms(clock.now()))
    assert [row["model"] for row in await read("latency_by_model")] == ["(none named)"]


async def test_refusals_say_whether_they_are_billed(read):
    assert [
        (row["model"], row["refusal_category"], row["not_billed_because"], row["unbilled_tokens"],
         row["cost_cents"])
        for row in await read("refusals")
    ] == [("m2", None, None, None, 3.0), ("m2", "cyber", "refused_before_output", 10, 0.0)]  # fmt: skip


async def test_the_page_of_sql_leads_to_each_of_them(client, ann, read):
    page = (await client.get("/traces", headers=ann.cookie)).text
    for by in ("model", "client", "credential", "endpoint"):
        assert f'href="/traces/cost_by_{by}"' in page
