"""A price modifier by facts that an entry has: a tier for which upstream asks for four fifths."""

from tests.trails.copies import Copy, Trail

FACTOR = """\
FLEX = (Multiplier(factor=Decimal("0.8"), starts=date(2026, 6, 1)),)
"""
USE = """\
    if call.service_tier == "flex":
        multiplier *= find_factor(FLEX, model, call.created_at)
"""
CHECK = """
from datetime import UTC, datetime
from decimal import Decimal

from tests.metering.test_pricing import MILLION, NOW, PRICES, price_usage, tokens, usage


def test_it_holds_from_its_day_on_and_beside_others():
    flex = usage(tokens(input=MILLION), service_tier="flex")
    assert price_usage(flex, NOW, PRICES)[1] == Decimal(400)
    assert price_usage(flex, datetime(2026, 5, 31, tzinfo=UTC), PRICES)[1] == Decimal(500)
    in_us = usage(tokens(input=MILLION), service_tier="flex", inference_geo="us")
    items, total = price_usage(in_us, NOW, PRICES)
    assert (items[0].multiplier, total) == (Decimal("0.88"), Decimal(440))
"""


def walk(copy: Copy) -> None:
    copy.insert("metering/pricing.py", FACTOR, before="\n_read_pass = ")
    copy.insert("metering/pricing.py", USE, before="    if call.inference_geo is not None")
    copy.insert("dashboard/templates/call_cost.html", ", flex tier", after="(batch processing")
    copy.insert(
        "dashboard/tables/metadata/tables.toml",
        ", flex tier",
        after="Factor on the list price for region",
    )


TRAIL = Trail(
    heading="Add a price modifier",
    walk=walk,
    choices=(  # for a new fact, and for rates of its own
        "store/traces/calls/costs.py",
        "metering/billed_passes.py",
        "recorder/recorded_calls.py",
        "recorder/savings_calls.py",
        "store/traces/savings/savings_calls.py",
        "metering/rates.py",
        "metering/price_format.py",
        "metering/prices.py",
    ),
    checks={"tests/metering/test_walked_modifier.py": CHECK},
    tests=("tests/metering/test_pricing.py",),
)
