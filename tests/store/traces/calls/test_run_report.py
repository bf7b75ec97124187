from dataclasses import replace
from decimal import Decimal

from metering.token_counts import UNKNOWN, ZERO, TokenCounts
from store.traces.calls.run_report import read_run
from store.traces.sums.usage_report import Totals, read_usage
from tests.store.traces.sums.test_usage_report import CALL
from tests.store.traffic import make_item, with_items


def test_a_run_has_the_totals_of_its_own_calls(traces, traces_path):
    mine = replace(CALL, run_id="mine")
    calls = [
        mine,
        replace(mine, slug="two", proxy_endpoint_id="e2"),
        replace(mine, model="m2", cost_cents=Decimal(2)),
        replace(mine, model="m3", cost_cents=None),
        replace(mine, model=None, cost_cents=None, usage_source="none", outcome="upstream_error",
                tokens=UNKNOWN),
        replace(mine, model=None, cost_cents=None, usage_source="none",
                outcome="client_disconnected"),
        replace(mine, usage_source="estimated", estimated_cents=Decimal("0.2")),
        replace(CALL, run_id="other"),
        CALL,
    ]  # fmt: skip
    traces.insert([with_items(replace(call, entry_id=str(n))) for n, call in enumerate(calls)])
    report = read_run(traces_path, "mine", 3)
    assert (report.run_id, report.pending) == ("mine", 3)
    assert report.totals == Totals(
        calls=7, errors=1, tokens=ZERO + TokenCounts(60, 12, 18, 24), cost_cents=3.5, unpriced=1,
        unpriced_tokens=38,
        estimated_cents=0.2, maybe_billed=1, rejected=None,
    )  # fmt: skip
    assert [(each.model, each.totals.calls, each.totals.cost_cents) for each in report.models] == [
        ("m2", 1, 2.0), ("m1", 3, 1.5), (None, 2, 0.0), ("m3", 1, 0.0),
    ]  # fmt: skip


def test_a_run_is_read_from_an_index(traces):
    (plan,) = traces.connection.execute(
        "explain query plan select id from usage where run_id = 'x'"
    )
    assert "usage_run" in plan[3]


def test_a_run_without_calls_has_zeros(tmp_path, traces, traces_path):
    for path in (tmp_path / "none.db", traces_path):
        report = read_run(path, "mine")
        assert (report.totals, report.models) == (Totals(rejected=None), [])


def test_each_pass_of_a_run_is_booked_to_the_model_that_ran_it(traces, traces_path):
    """The hourly sums do so too: an advisor and a declined hop are not of the model of the call."""
    items = (
        make_item(model="m1", component="input", quantity=10, cents=Decimal(3)),
        make_item(model="advisor", component="input", quantity=20, cents=Decimal(40)),
        make_item(
            model="advisor", component="output", quantity=2, cents=Decimal(5), estimated=True
        ),
        make_item(model="declined", quantity=30, cents=Decimal(0), unbilled_reason="declined_hop"),
        make_item(model="m1", component="web_search", quantity=2, cents=Decimal(2)),
    )
    call = replace(CALL, cost_cents=Decimal(50), cost_items=items, billing="subscription")
    traces.insert([replace(call, run_id="mine")])
    report = read_run(traces_path, "mine")
    assert [
        (each.model, each.totals.calls, each.totals.tokens.input_tokens, each.totals.cost_cents)
        for each in report.models
    ] == [("advisor", 0, 20, 45), ("m1", 1, 10, 5), ("declined", 0, 0, 0)]
    assert [each.totals.estimated_cents for each in report.models] == [5, 0, 0]
    assert [each.totals.value_cents for each in report.models] == [45, 5, 0]
    hourly = read_usage(traces_path, "model")
    assert report.models == hourly.groups
    assert report.totals == replace(hourly.totals, rejected=None)


def test_a_file_without_tables_has_no_runs(tmp_path):
    (tmp_path / "traces.db").touch()
    assert read_run(tmp_path / "traces.db", "mine").models == []
