"""The tokens of a subscription are one person: in reports, in filters and when calls are erased."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from metering.rate_limits import RateLimits
from runtime import clock
from store.traces import steps
from store.traces.calls import credential_accounts
from store.traces.calls.credential_accounts import (
    list_fingerprints,
    read_accounts,
    read_accounts_of,
)
from store.traces.database import TraceDatabase
from store.traces.maintenance.criteria import Criteria
from store.traces.sums.overview_query import Query
from store.traces.sums.overview_reader import OverviewReader
from store.traces.sums.usage_report import add_up, read_usage
from tests.store.traffic import make_entry

DAY = date(2026, 1, 2)
PERIOD: dict[str, Any] = {
    "start": datetime(2026, 1, 2, tzinfo=UTC),
    "end": datetime(2026, 1, 3, tzinfo=UTC),
}


@pytest.fixture
def traces(tmp_path):
    with TraceDatabase(tmp_path / "traces.db") as traces:
        for hour, credential, account, cents in (
            (9, "new", "ana", 3),
            (8, "old", "ana", 2),
            (8, "bob's", "bob", 10),
            (8, "key", None, 100),
        ):
            limits = (
                None if account is None else RateLimits(unified_status="allowed", account=account)
            )
            traces.insert(
                [
                    make_entry(
                        created_at=f"2026-01-02T{hour:02}:10:00.000Z",
                        credential_hmac=credential,
                        rate_limits=limits,
                        cost_cents=Decimal(cents),
                        session_id=credential,
                    )
                ]
            )
        # A response without limits, as of an error, says nothing of an account.
        traces.insert([make_entry(created_at="2026-01-02T10:00:00.000Z", credential_hmac="old")])
        yield traces


def test_each_fingerprint_has_its_account_the_oldest_first(traces, tmp_path):
    accounts = read_accounts(traces.connection)
    assert list(accounts.items())[-1] == ("new", "ana")
    assert accounts == {"old": "ana", "new": "ana", "bob's": "bob"}
    for each in ("ana", "old", "new"):
        assert list_fingerprints(accounts, each) == ["old", "new"]
    assert list_fingerprints(accounts, "key") == ["key"]
    assert read_accounts_of(tmp_path / "traces.db") == accounts
    assert read_accounts_of(tmp_path / "none.db") == {}


def test_a_report_has_the_tokens_of_an_account_as_one_group(traces, tmp_path):
    report = read_usage(tmp_path / "traces.db", "credential", DAY, DAY)
    found = {
        each.credential_hmac: (each.totals.calls, each.totals.cost_cents) for each in report.groups
    }
    assert found == {"key": (1, 100), "bob": (1, 10), "ana": (3, 6.25)}


def test_groups_and_filters_of_the_home_page_are_by_account_too(traces):
    reader = OverviewReader(traces.connection)
    found = reader.read(Query(**PERIOD, by="credential"))
    assert {name for _, name in found.cells} == {"key", "bob", "ana"}
    assert found.timings.keys() == {"key", "bob", "ana"}
    for by in (None, "session"):  # from sums, and from calls
        query = Query(**PERIOD, filters={"credential": "ana"}, by=by)
        cells = reader.read(query).cells
        assert add_up(cells.values(), None).calls == 3
    assert reader.sum_cents(Query(**PERIOD, filters={"credential": "ana"}))[0] == 6.25
    assert reader.sum_cents(Query(**PERIOD, filters={"credential": "new"}))[0] == 3


@pytest.mark.parametrize("credential", ["ana", "old", "new"])
def test_whoever_erases_a_token_erases_all_calls_of_its_account(traces, credential):
    erasure = traces.erase_in_steps(clock.new_id(), Criteria(credential=credential))
    assert steps.run(erasure, lambda *_: None) == 3
    rows = traces.connection.execute("select credential_hmac from usage order by 1").fetchall()
    assert rows == [("bob's",), ("key",)]


def test_a_client_that_names_another_account_each_time_makes_so_many_rows(traces, monkeypatch):
    monkeypatch.setattr(credential_accounts, "MAX_FINGERPRINTS", 4)
    for name in ("c4", "c5", "old"):
        limits = RateLimits(unified_status="allowed", account=f"{name}'s")
        traces.insert(
            [
                make_entry(
                    created_at="2026-01-02T12:00:00.000Z", credential_hmac=name, rate_limits=limits
                )
            ]
        )
    accounts = read_accounts(traces.connection)
    assert accounts == {"old": "old's", "new": "ana", "bob's": "bob", "c4": "c4's"}
