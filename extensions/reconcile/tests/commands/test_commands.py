"""``taximeter reconcile`` prints upstream's reports beside what was recorded, and keeps the result."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import click
import pytest

from extensions.reconcile.commands import find_period
from extensions.reconcile.result_file import find_file, make_document, read_reconciliation
from extensions.reconcile.tests import admin_api
from extensions.reconcile.tests.admin_api import ADMIN_KEY
from extensions.reconcile.tests.analytics_api import ANALYTICS_KEY, AnalyticsApi
from runtime import clock
from store.control.database import ControlDatabase
from tests.store.traffic import make_entry, make_item
from tests.upstream import answer, error_json

PERIOD = ("--from", "2026-01-01", "--to", "2026-01-02")


@pytest.fixture
def upstream():
    with admin_api.AdminApi() as upstream:
        yield upstream
    assert upstream.faults == []


@pytest.fixture(autouse=True)
def _environment(monkeypatch, upstream):
    monkeypatch.setenv("ANTHROPIC_ADMIN_KEY", ADMIN_KEY)
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", upstream.url)


@pytest.fixture
def organization_id(data_dir):
    with ControlDatabase(data_dir / "control.db") as control:
        return control.get_local_organization().id


def record(traces, day, model, quantity, cents):
    item = make_item(
        model=model, component="output", quantity=quantity, cents=cents and Decimal(cents)
    )
    traces.insert([make_entry(created_at=f"{day}T12:00:00.000Z", model=model, cost_items=(item,))])


def cells(result):
    assert result.exit_code == 0, result.output
    return [line.split(maxsplit=8) for line in result.stdout.partition("\n\n")[0].splitlines()[1:]]


def test_each_day_and_model_has_both_sides_the_difference_and_its_causes(run, traces, upstream):
    upstream.use("2026-01-01", "claude-a", output=100)
    upstream.charge("2026-01-01", "claude-a", "150")
    record(traces, "2026-01-01", "claude-a", 100, "150")
    upstream.use("2026-01-02", "claude-a", output=120)
    upstream.use("2026-01-02", "claude-a", output=30, tier="batch")
    upstream.charge("2026-01-02", "claude-a", "180")
    upstream.charge("2026-01-02", "claude-a", "22.5", tier="batch")
    record(traces, "2026-01-02", "claude-a", 120, "180")
    record(traces, "2026-01-02", "claude-new", 7, None)
    result = run("reconcile", *PERIOD)
    assert cells(result) == [
        ["2026-01-02", "claude-a", "$2.0250", "$1.8000", "+$0.2250", "150", "120", "+30", "batches (30 tokens, $0.2250)"],
        ["2026-01-02", "claude-new", "$0.0000", "$0.0000", "$0.0000", "0", "7", "\N{MINUS SIGN}7", "no known price (1 call); not reported (7 tokens)"],
        ["2026-01-01", "claude-a", "$1.5000", "$1.5000", "$0.0000", "100", "100", "0"],
        ["TOTAL", "$3.5250", "$3.3000", "+$0.2250", "250", "227", "+23"],
    ]  # fmt: skip
    assert "no known price: The price of these recorded calls is not known" in result.stdout
    assert f"Fetching the reports of 2026-01-01 to 2026-01-02 from {upstream.url}" in result.stderr
    assert ADMIN_KEY not in result.output


def test_the_analytics_reports_have_list_prices_and_products(run, traces, monkeypatch, data_dir):
    with AnalyticsApi() as upstream:
        monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", upstream.url)
        upstream.use("2026-01-02", "claude-a", output=100, requests=4)
        upstream.charge("2026-01-02", "claude-a", "80", list_cents="100")
        upstream.use("2026-01-02", "claude-a", output=7, product="claude_console\x1b[2J", key=None)
        upstream.charge(
            "2026-01-02", "claude-a", "5", list_cents="7", product="claude_console\x1b[2J"
        )
        upstream.refreshed_at = "2026-01-02T06:00:00Z"
        record(traces, "2026-01-02", "claude-a", 100, "100")
        result = run("reconcile", *PERIOD, "--analytics")
        document = json.loads(run("reconcile", *PERIOD, "--analytics", "--json").stdout)
    assert upstream.faults == []
    assert cells(result)[0][-1] == (
        "another product (claude_console?[2J, 7 tokens, $0.0500); discount ($0.2000); day not over"
    )
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["messages_api", "$0.8000", "$1.0000", "100", "4"] in lines
    assert ["claude_console?[2J", "$0.0500", "$0.0700", "7", "1"] in lines
    assert "default workspace" not in result.stdout
    assert document["analytics"] is True
    assert document["reported"]["discount_cents"] == 22


def test_a_key_with_the_scope_of_the_analytics_reports_alone_does_for_them(run, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_ADMIN_KEY", ANALYTICS_KEY)
    with AnalyticsApi() as upstream:
        monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", upstream.url)
        upstream.charge("2026-01-02", "claude-a", "80", list_cents="100")
        result = run("reconcile", *PERIOD, "--analytics")
        assert cells(result)[0][:3] == ["2026-01-02", "claude-a", "$0.8000"]
        assert {each.header("x-api-key") for each in upstream.requests} == {ANALYTICS_KEY}
        assert ANALYTICS_KEY not in result.output
        asked = len(upstream.requests)
        assert "name --analytics" in run("reconcile", *PERIOD).stderr
        upstream.instead = [answer(403, error_json("permission_error", "no such scope"))]
        refused = run("reconcile", *PERIOD, "--analytics").stderr
    assert len(upstream.requests) == asked + 1
    assert "the scope read:analytics" in refused
    assert "(upstream says: no such scope)" in refused


def test_workspaces_and_keys_are_listed_below(run, upstream):
    upstream.use("2026-01-01", "m", output=10, workspace="wrkspc_01", key="apikey_01")
    upstream.use("2026-01-01", "m", output=5, key=None)
    upstream.charge("2026-01-01", "m", "20", workspace="wrkspc_01")
    upstream.charge("2026-01-01", "m", "10")
    lines = [line.split() for line in run("reconcile", *PERIOD).stdout.splitlines()]
    assert ["wrkspc_01", "$0.2000", "-", "10"] in lines
    assert ["default", "$0.1000", "-", "5"] in lines
    assert ["apikey_01", "wrkspc_01", "10"] in lines
    assert ["no", "key", "(Console,", "sign-in)", "default", "5"] in lines


def test_as_json_it_is_one_document_which_is_also_kept(
    run, traces, upstream, data_dir, organization_id
):
    upstream.charge("2026-01-01", "m", "12.5")
    result = run("reconcile", *PERIOD, "--json")
    document = json.loads(result.stdout)
    assert (document["from"], document["to"]) == ("2026-01-01", "2026-01-02")
    assert document["difference"]["cost_cents"] == 12.5
    kept = read_reconciliation(data_dir, organization_id)
    assert kept is not None
    assert document == make_document(kept)


def test_the_key_is_kept_nowhere(run, upstream, data_dir):
    run("reconcile", *PERIOD)
    assert upstream.requests[0].header("x-api-key") == ADMIN_KEY
    files = [path for path in data_dir.rglob("*") if path.is_file()]
    assert any(path.name == "reconciliation.json" for path in files)
    assert [path for path in files if ADMIN_KEY.encode() in path.read_bytes()] == []


def test_another_user_s_organisation_has_a_result_of_its_own(
    run, upstream, data_dir, organization_id
):
    assert run("users", "create", "--email", "ann@example.org").exit_code == 0
    assert run("reconcile", *PERIOD, "--user", "ann@example.org").exit_code == 0
    assert read_reconciliation(data_dir, organization_id) is None
    assert len(list(data_dir.glob("traces/*/reconciliation.json"))) == 1


def test_calls_that_are_left_out_are_in_the_notes(run, traces, upstream):
    upstream.instead = [
        answer(200, json.dumps({"data": [], "has_more": False, "next_page": None}).encode())
        for _ in range(2)
    ]
    result = run("reconcile", *PERIOD)
    assert "days without a report (2 days): The usage report has nothing" in result.stdout


def test_without_a_key_nothing_is_sent(run, monkeypatch, upstream, data_dir, organization_id):
    monkeypatch.delenv("ANTHROPIC_ADMIN_KEY")
    result = run("reconcile")
    assert result.exit_code == 1
    assert "there is no key in the environment variable ANTHROPIC_ADMIN_KEY" in result.stderr
    assert upstream.requests == []
    assert not find_file(data_dir, organization_id).exists()


def test_a_refusal_leaves_the_last_result_as_it_was(run, upstream, data_dir, organization_id):
    run("reconcile", *PERIOD)
    before = find_file(data_dir, organization_id).read_bytes()
    upstream.instead = [answer(403, error_json("permission_error", "not an admin\x1b[2J"))]
    result = run("reconcile", *PERIOD)
    assert result.exit_code == 1
    assert "may not read usage and cost reports" in result.stderr
    assert "not an admin?[2J" in result.stderr
    assert find_file(data_dir, organization_id).read_bytes() == before


def test_names_from_upstream_cannot_control_the_terminal(run, upstream):
    upstream.use("2026-01-01", "claude\x1b[2J\nx", output=1)
    upstream.charge("2026-01-01", None, "1", kind="\x1b]0;x\x07")
    result = run("reconcile", *PERIOD)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout


def test_the_key_is_not_sent_without_tls(run, monkeypatch, upstream):
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", "http://gateway.example.org")
    result = run("reconcile")
    assert result.exit_code == 1
    assert "http://gateway.example.org has no TLS" in result.stderr
    assert run("reconcile", *PERIOD, "--admin-url", upstream.url).exit_code == 0
    assert "--admin-url ftp" in run("reconcile", "--admin-url", "ftp://x").stderr


def test_without_a_data_directory_nothing_is_sent(run, upstream, data_dir):
    (data_dir / "control.db").unlink()
    result = run("reconcile")
    assert (result.exit_code, upstream.requests) == (1, [])
    assert "there is no Taximeter data" in result.stderr


def test_by_default_it_is_the_seven_days_before_today(run, monkeypatch, upstream):
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 1, 10, 0, 30, tzinfo=UTC))
    assert run("reconcile").exit_code == 0
    target = upstream.requests[0].target
    assert "starting_at=2026-01-03T00%3A00%3A00Z&ending_at=2026-01-10T00%3A00%3A00Z" in target


TODAY = date(2026, 1, 10)
YESTERDAY = date(2026, 1, 9)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None), (date(2026, 1, 3), YESTERDAY)),
        ((1, None, None), (YESTERDAY, YESTERDAY)),
        ((3, None, date(2026, 1, 5)), (date(2026, 1, 3), date(2026, 1, 5))),
        ((None, date(2026, 1, 2), None), (date(2026, 1, 2), YESTERDAY)),
        ((None, TODAY, None), (TODAY, TODAY)),
        ((None, None, TODAY), (date(2026, 1, 4), TODAY)),
        ((9, None, date(1, 1, 3)), (date.min, date(1, 1, 3))),
    ],
)
def test_days_are_counted_back_from_the_last(given, expected):
    days, first, last = given
    assert find_period(days, first, last, TODAY) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((1, YESTERDAY, None), "exclude each other"),
        ((None, YESTERDAY, date(2026, 1, 8)), "ends .* before it begins"),
        ((None, None, date(2026, 1, 11)), "has not come yet"),
        ((None, date(2026, 1, 11), None), "has not come yet"),
        ((None, date(2025, 1, 1), None), "at most 366 days"),
    ],
)
def test_a_period_that_cannot_be_is_refused(given, words):
    days, first, last = given
    with pytest.raises(click.UsageError, match=words):
        find_period(days, first, last, TODAY)


def test_a_folder_that_cannot_be_written_is_named(run, upstream, data_dir):
    (data_dir / "traces").write_text("in the way")
    result = run("reconcile", *PERIOD)
    assert result.exit_code == 1
    assert "traces: File exists" in result.stderr
