import random
from dataclasses import replace
from decimal import Decimal

import pytest

from metering.entry import CostItem, UsageLogEntry
from metering.prices import PriceTable
from metering.token_counts import TokenCounts
from store.traces.calls.costs import NewCost, read_items
from store.traces.calls.reprice import reprice
from store.traces.database import TraceDatabase
from store.traces.sums import rollup
from store.traces.sums.rollup import MAX_CLIENTS, MAX_CREDENTIALS, SUMS, HourKey, find_product
from tests.store.traffic import make_entry, make_item


@pytest.fixture
def read_rows(traces):
    """Reads the sums by some of their keys, without the columns that are 0."""

    def read(*keys):
        names = ", ".join((*keys, *(f"sum({name}) as {name}" for name in SUMS)))
        found = traces.connection.execute(
            f"select {names} from usage_hourly group by {', '.join(keys)}"  # noqa: S608
        ).fetchall()
        return {
            row[: len(keys)] if len(keys) > 1 else row[0]: {
                name: value
                for name, value in zip(SUMS, row[len(keys) :], strict=True)
                if abs(value) > 1e-9
            }
            for row in found
        }

    return read


def make_pass(model, *, index=0, rate="2", **changes):
    """Two lines, 100 tokens of input and 10 of output, each at a rate of its own."""
    lines = (("input", 100, Decimal(rate)), ("output", 10, Decimal(rate) * 5))
    return tuple(
        make_item(
            model=model,
            pass_index=index,
            component=component,
            quantity=quantity,
            rate_usd=price,
            multiplier=Decimal(1),
            cents=quantity * price / 10_000,
            **changes,
        )
        for component, quantity, price in lines
    )


def take_price(items):
    return tuple(
        item._replace(rate_usd=None, multiplier=None, price_version=None, cents=None)
        for item in items
    )


def test_each_pass_is_booked_to_its_model_and_the_call_to_its_own(traces, read_rows):
    """Compaction by the model of the call, an advisor, and a model that declined for nothing."""
    declined = tuple(
        item._replace(unbilled_reason="declined_hop", multiplier=Decimal(0), cents=Decimal(0))
        for item in make_pass("declined", index=0)
    )
    items = (
        *declined,
        *make_pass("top", index=1),
        *make_pass("advisor", index=2, rate="10"),
        *make_pass("top", index=3),
    )
    traces.insert([make_entry(model="top", cost_items=items, cost_cents=Decimal("0.21"))])
    rows = read_rows("model")
    assert rows["declined"] == {"unbilled_tokens": 110}
    assert rows["advisor"] == {
        "input_tokens": 100,
        "output_tokens": 10,
        "cost_cents": pytest.approx(0.15),
    }
    assert rows["top"] == {
        "entries": 1,
        "timed": 1,
        "duration_ms": 100.5,
        "input_tokens": 200,
        "output_tokens": 20,
        "cost_cents": pytest.approx(0.06),
    }


def test_what_has_a_price_of_its_own_or_none_is_told_apart(traces, read_rows):
    items = (
        make_item(component="cache_write_5m", quantity=3, cents=Decimal(1)),
        make_item(component="cache_write_1h", quantity=4, cents=Decimal(2)),
        make_item(component="web_search", quantity=5, cents=Decimal(4)),
        make_item(component="output", quantity=6, cents=Decimal(8), estimated=True),
        *take_price([make_item(model="new", quantity=7)]),
    )
    traces.insert([make_entry(model="new", cost_items=items, cost_cents=None)])
    rows = read_rows("model")
    assert rows["claude-sonnet-4-5"] == {
        "cache_creation_input_tokens": 7,
        "cache_write_1h_tokens": 4,
        "web_search_requests": 5,
        "output_tokens": 6,
        "cost_cents": 15,
        "estimated_cents": 8,
    }
    assert rows["new"]["unpriced"] == rows["new"]["entries"] == 1
    assert rows["new"]["input_tokens"] == rows["new"]["unpriced_tokens"] == 7


@pytest.mark.parametrize(
    ("client", "product"),
    [
        ("claude-cli/2.1.0", "claude-cli"),
        ("Anthropic/Python 2.11.0", "Anthropic/Python"),
        ("Anthropic/JS 0.70.1", "Anthropic/JS"),
        ("tool/v3-beta", "tool"),
        ("curl", "curl"),
        ("a/b/1/2", "a/b"),
        (None, ""),
    ],
)
def test_a_client_is_named_without_its_version(client, product):
    assert find_product(client) == product


@pytest.mark.parametrize(
    ("billing", "overage", "booked"),
    [
        ("api_key", None, "api_key"),
        ("subscription", False, "subscription"),
        ("subscription", None, "subscription"),
        ("subscription", True, "overage"),
        ("customer", True, "customer"),
        (None, None, ""),
    ],
)
def test_what_extra_usage_covers_is_no_value_of_a_subscription(
    traces, read_rows, billing, overage, booked
):
    traces.insert([make_entry(billing=billing, overage=overage)])
    assert read_rows("billing").keys() == {booked}


@pytest.mark.slow
def test_an_hour_of_two_thousand_clients_has_a_bounded_number_of_rows(traces, read_rows):
    known = {"client": "claude-cli/2.1", "credential_hmac": "mine", "billing": "api_key"}
    traces.insert([make_entry(**known)])
    for start in range(0, 2_000, 500):
        traces.insert(
            [
                make_entry(client=f"evil-{n}x/1.0", credential_hmac=f"c{n % 600}", billing=None)
                for n in range(start, start + 500)
            ]
        )
    traces.insert([make_entry(**known, cost_cents=Decimal(7))])
    clients, credentials = read_rows("client"), read_rows("credential_hmac")
    assert len(clients) == MAX_CLIENTS + 1
    assert len(credentials) == MAX_CREDENTIALS + 1
    assert clients["claude-cli"]["cost_cents"] == credentials["mine"]["cost_cents"] == 8.25
    assert clients[rollup.OTHER]["entries"] == 2_000 - (MAX_CLIENTS - 1)
    assert sum(row["entries"] for row in clients.values()) == 2_002
    (count,) = traces.connection.execute("select count(*) from usage_hourly").fetchone()
    assert count <= (MAX_CLIENTS + 1) * (MAX_CREDENTIALS + 1)
    traces.insert([make_entry(client="evil-5x/2", created_at="2026-01-02T09:00:00.000Z")])
    assert ("2026-01-02T09", "evil-5x") in read_rows("hour", "client")


def test_a_cost_that_changes_is_found_in_the_row_that_it_was_booked_to(traces, read_rows):
    """Also among the others, when there is no room for a new name."""
    entries = [
        make_entry(client=f"evil-{n}x/1.0", cost_items=make_pass("m"), cost_cents=Decimal("0.03"))
        for n in range(MAX_CLIENTS + 5)
    ]
    traces.insert(entries)
    items = make_pass("m", rate="200")
    count = len(entries)
    traces.update_costs(
        [
            NewCost(usage_id=usage_id, cost_cents=Decimal(3), cost_items=items)
            for usage_id in range(1, count + 1)
        ]
    )
    rows = read_rows("client")
    assert rows[rollup.OTHER]["cost_cents"] == pytest.approx(15)
    own = [row["cost_cents"] for name, row in rows.items() if name != rollup.OTHER]
    assert own == [pytest.approx(3)] * MAX_CLIENTS


MODELS = ("claude-opus-5", "claude-haiku-4-5", "gone-1", None)


def make_any(rng: random.Random):
    """An entry of up to four passes, some of them not billed, some without a price."""
    items: list[CostItem] = []
    for index in range(rng.randrange(4)):
        made = make_pass(rng.choice(MODELS), index=index, rate=str(rng.randrange(1, 90)))
        if rng.random() < 0.2:
            made = tuple(
                item._replace(unbilled_reason="declined_hop", cents=Decimal(0)) for item in made
            )
        elif rng.random() < 0.3:
            made = take_price(made)
        items += made
    known = [item.cents for item in items if item.cents is not None]
    return make_entry(
        created_at=f"2026-01-0{rng.randrange(1, 4)}T0{rng.randrange(3)}:00:00.000Z",
        model=rng.choice(MODELS),
        client=rng.choice((None, "a/1", "a/2", "b/1")),
        credential_hmac=rng.choice((None, "c1", "c2")),
        billing=rng.choice((None, "api_key", "subscription", "customer")),
        outcome=rng.choice(("complete", "upstream_error", "client_disconnected")),
        tokens=TokenCounts(*(rng.randrange(9) for _ in range(4))),
        usage_source=rng.choice(("final", "none")) if not items else "final",
        duration_ms=rng.choice((None, 7.5)),
        cost_items=tuple(items),
        cost_cents=sum(known, Decimal(0)) if len(known) == len(items) else None,
    )


def dump(connection):
    names = ", ".join((*HourKey._fields, *SUMS))
    rows = connection.execute(f"select {names} from usage_hourly order by 1, 2, 3, 4, 5, 6, 7")  # noqa: S608
    keys = len(HourKey._fields)
    return {
        row[:keys]: tuple(pytest.approx(value, abs=1e-6) for value in row[keys:])
        for row in rows
        if any(abs(value) > 1e-6 for value in row[keys:])
    }


def read_costs(traces):
    """The id and the stored cost of the entries that are left, by entry id."""
    return {
        entry_id: (usage_id, cost_cents)
        for entry_id, usage_id, cost_cents in traces.connection.execute(
            "select entry_id, id, cost_cents from usage"
        )
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_sums_are_those_of_all_calls_at_their_last_cost(traces, tmp_path, seed):
    """After any sequence of calls, costs that change, new prices and retention, which keeps sums."""
    rng = random.Random(seed)  # noqa: S311
    last: dict[str, UsageLogEntry] = {}
    for _ in range(40):
        action = rng.choice(("insert", "insert", "change", "reprice", "prune"))
        if action == "insert":
            entries = [make_any(rng) for _ in range(rng.randrange(6))]
            traces.insert(entries)
            last |= {entry.entry_id: entry for entry in entries}
        elif action == "change" and (left := read_costs(traces)):
            entry_id = rng.choice(list(left))
            other = make_any(rng)
            changes = {"cost_cents": other.cost_cents, "cost_items": other.cost_items}
            traces.update_costs([NewCost(usage_id=left[entry_id][0], **changes)])
            last[entry_id] = replace(last[entry_id], **changes)
        elif action == "reprice":
            reprice(traces, PriceTable(), everything=rng.random() < 0.5)
            for entry_id, (usage_id, cost_cents) in read_costs(traces).items():
                last[entry_id] = replace(
                    last[entry_id],
                    cost_cents=cost_cents if cost_cents is None else Decimal(repr(cost_cents)),
                    cost_items=read_items(traces.connection, usage_id),
                )
        elif action == "prune":
            traces.prune(before=f"2026-01-0{rng.randrange(1, 4)}", pause=lambda _: None)
    with TraceDatabase(tmp_path / "again" / "traces.db") as again:
        again.insert(list(last.values()))
        assert dump(traces.connection) == dump(again.connection)
        assert len(dump(again.connection)) > 5
