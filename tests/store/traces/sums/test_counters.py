import sqlite3
from collections import Counter
from decimal import Decimal
from math import inf

import pytest

from store.traces.calls.costs import NewCost
from store.traces.sums import counters
from store.traces.sums.counters import CALL_SUMS, CallKey, TimeKey, read_counters
from tests.store.traffic import make_entry


def read_calls(path, name="calls"):
    return {key: sums[CALL_SUMS.index(name)] for key, sums in read_counters(path).calls.items()}


def test_calls_tokens_and_costs_are_counted_by_slug_model_and_outcome(traces, traces_path):
    traces.insert(
        [
            make_entry(slug="a", model="m", input_tokens=3, cost_cents=Decimal("1.5")),
            make_entry(slug="a", model="m", input_tokens=4, cost_cents=Decimal("0.25")),
            make_entry(slug="a", model=None, outcome="upstream_error", cost_cents=None),
            make_entry(slug="b", model="m"),
        ]
    )
    ours = CallKey("a", "m", "complete")
    assert read_calls(traces_path) == {
        ours: 2, CallKey("a", "", "upstream_error"): 1, CallKey("b", "m", "complete"): 1,
    }  # fmt: skip
    assert read_calls(traces_path, "input_tokens")[ours] == 7
    assert read_calls(traces_path, "cost_cents")[ours] == 1.75


def test_a_time_is_in_the_bucket_with_the_next_bound(traces, traces_path):
    traces.insert(
        [
            make_entry(slug="a", ttfb_ms=100.0, duration_ms=100.1, proxy_overhead_ms=None),
            make_entry(slug="a", ttfb_ms=None, duration_ms=1e9, proxy_overhead_ms=-0.5),
        ]
    )
    assert read_counters(traces_path).times == {
        TimeKey("a", "ttfb_ms", 0.1): (1, 0.1),
        TimeKey("a", "duration_ms", 0.25): (1, pytest.approx(0.1001)),
        TimeKey("a", "duration_ms", inf): (1, 1e6),
        TimeKey("a", "proxy_overhead_ms", 0.0005): (1, 0),
    }


def test_what_was_counted_stays_when_calls_are_priced_anew(traces, traces_path):
    traces.insert([make_entry(slug="a", cost_cents=Decimal(5))])
    before = read_counters(traces_path)
    (stored,) = traces.iter_costs()
    traces.update_costs([NewCost(usage_id=stored.usage_id, cost_cents=Decimal(1), cost_items=())])
    assert read_counters(traces_path) == before


def test_models_without_end_share_rows(traces, traces_path, monkeypatch):
    monkeypatch.setattr(counters, "MAX_MODELS", 3)
    for model in ("1", "2", "3", "4", "5", "1"):
        traces.insert([make_entry(slug="a", model=model)])
    traces.insert([make_entry(slug="b", model="1"), make_entry(slug="c", model="1")])
    found = Counter({(key.slug, key.model): n for key, n in read_calls(traces_path).items()})
    assert found == {
        ("a", "1"): 2, ("a", "2"): 1, ("a", "3"): 1, ("a", "(other)"): 2, ("(other)", "(other)"): 2,
    }  # fmt: skip


def test_the_bound_also_holds_for_a_database_that_is_opened_again(traces, traces_path, monkeypatch):
    monkeypatch.setattr(counters, "MAX_MODELS", 1)
    traces.insert([make_entry(slug="a", model="1")])
    counters.CallCounter(traces.connection).add([make_entry(slug="a", model="2")])
    assert {key.model for key in read_calls(traces_path)} == {"1", "(other)"}


def test_a_transaction_that_fails_counts_nothing(traces, traces_path, monkeypatch):
    def fail(*_):
        raise sqlite3.OperationalError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(counters.CallCounter, "add", fail)
        with pytest.raises(sqlite3.OperationalError):
            traces.insert([make_entry()])
    assert read_calls(traces_path) == {}
    assert traces.count_entries() == 0


def test_a_database_that_is_being_made_has_no_counters(tmp_path):
    path = tmp_path / "traces.db"
    sqlite3.connect(path).close()
    assert read_counters(path) == ({}, {})
