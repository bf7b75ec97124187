from datetime import date
from decimal import Decimal

from metering.token_counts import UNKNOWN
from metering.upstream_objects import UpstreamObject
from store.traces.calls.upstream_objects import Reading
from store.traces.sums.products import ProductTotals, read_products
from tests.store.traffic import make_entry

READING = Reading(
    read_at="2026-01-02T12:00:00.000Z",
    proxy_endpoint_id="pe_1",
    slug="default",
    credential_hmac=None,
)


def make_object(object_id, kind="session", cents="100", list_cents=None, **changes):
    values = {
        "object_id": object_id,
        "kind": kind,
        "created_at": "2026-01-02T10:00:00.000Z",
        "ended_at": None,
        "status": "idle",
        "model": "m",
        "speed": None,
        "session_id": None,
        "tokens": UNKNOWN,
        "cache_write_1h_tokens": 0,
        "web_search_requests": None,
        "active_seconds": None,
        "cost_cents": cents and Decimal(cents),
        "list_cost_cents": list_cents and Decimal(list_cents),
    }
    return UpstreamObject(**values | changes)


def test_products_are_summed_by_the_days_on_which_they_began(traces):
    def make(at, cents, product):
        return make_entry(created_at=at, cost_cents=cents and Decimal(cents), product=product)

    traces.insert(
        [
            make("2026-01-01T23:59:59.999Z", 1, "batch"),
            make("2026-01-02T00:00:00.000Z", 2, "batch"),
            make("2026-01-02T23:59:59.999Z", None, "batch"),
            make("2026-01-02T03:00:00.000Z", 5, "chat_completions"),
            make("2026-01-02T03:00:00.000Z", 50, "messages"),
        ]
    )
    traces.write_upstream_objects(
        READING,
        [
            make_object("sesn_1", list_cents="101"),
            make_object("sesn_2", cents=None),
            make_object("sesn_3", created_at="2025-12-31T10:00:00.000Z"),
            make_object("sesn_4"),
            make_object("drm_1", "dream", "7", created_at=None, session_id="sesn_4"),
        ],
    )

    def product(name, count, cents, unpriced=0, list_cents=None):
        return ProductTotals(
            product=name,
            count=count,
            cost_cents=cents,
            unpriced=unpriced,
            list_cost_cents=list_cents,
            is_of_calls=name in ("batch", "chat_completions"),
        )

    day = date(2026, 1, 2)
    assert sorted(read_products(traces.connection, day, day), key=lambda each: each.product) == [
        product("batch", 2, 2.0, unpriced=1),
        product("chat_completions", 1, 5.0),
        product("dream", 1, 7.0),
        product("session", 2, 100.0, unpriced=1, list_cents=101.0),
    ]
    counts = {each.product: each.count for each in read_products(traces.connection, None, None)}
    assert counts == {"batch": 3, "chat_completions": 1, "dream": 1, "session": 3}
