"""The last reconciliation is kept as JSON, for its owner only, and read back as it was."""

import json
import os
from datetime import date
from decimal import Decimal

import pytest

from extensions.reconcile.comparison import CallCounts, Cause, Figures, Recorded, Reported, compare
from extensions.reconcile.result_file import (
    Reconciliation,
    UnreadableError,
    find_file,
    make_document,
    read_reconciliation,
    write_reconciliation,
)
from metering.token_counts import TokenCounts

DAY = date(2026, 1, 2)


def make_reconciliation(**changes):
    theirs = Reported(
        day=DAY,
        kind="tokens",
        model="m",
        figures=Figures(tokens=TokenCounts(1, 2, 3, 4), cost_cents=Decimal("123.78912")),
        workspace_id="wrkspc_01",
        api_key_id="apikey_01",
    )
    ours = Recorded(
        day=DAY,
        kind="tokens",
        model="m",
        figures=Figures(tokens=TokenCounts(1, 2, 3, 0), cost_cents=Decimal("100.1")),
        counts=CallCounts(calls=1, unpriced=1),
        workspace_id="wrkspc_01",
    )
    notes = (Cause(name="subscription", calls=3, cost_cents=Decimal("7.25")),)
    fields = {
        "fetched_at": "2026-01-03T00:00:00Z",
        "upstream_url": "https://api.anthropic.com",
        "upstream_organization_id": None,
        "from_day": DAY,
        "to_day": DAY,
        "comparison": compare([theirs], [ours], open_day=date(2026, 2, 1), notes=notes),
    }
    return Reconciliation(**(fields | changes))


def test_it_is_read_back_as_it_was(tmp_path):
    assert read_reconciliation(tmp_path, "o1") is None
    written = make_reconciliation()
    write_reconciliation(tmp_path, "o1", written)
    assert read_reconciliation(tmp_path, "o1") == written
    assert read_reconciliation(tmp_path, "o2") is None


@pytest.fixture
def anybody_may_read():
    old = os.umask(0)
    yield
    os.umask(old)


def test_the_next_replaces_it_and_only_the_owner_may_read_it(tmp_path, anybody_may_read):
    write_reconciliation(tmp_path, "o1", make_reconciliation())
    second = make_reconciliation(fetched_at="2026-01-04T00:00:00Z")
    write_reconciliation(tmp_path, "o1", second)
    path = find_file(tmp_path, "o1")
    assert read_reconciliation(tmp_path, "o1") == second
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert path.parent.parent.stat().st_mode & 0o077 == 0
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_as_json_costs_are_numbers_and_days_are_text():
    document = make_document(make_reconciliation())
    assert (document["from"], document["to"]) == ("2026-01-02", "2026-01-02")
    assert document["difference"]["cost_cents"] == pytest.approx(23.68912)
    (row,) = document["rows"]
    assert row["day"] == "2026-01-02"
    assert row["reported"] == {
        "tokens": {
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 4,
        },
        "web_search_requests": 0,
        "cost_cents": 123.78912,
        "discount_cents": 0.0,
    }
    assert [cause["name"] for cause in row["causes"]] == ["unpriced", "not_proxied"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"from": 1}', json.dumps({"rows": []}).encode(), b"\xff"],
)
def test_a_file_that_is_something_else_is_unreadable(tmp_path, content):
    write_reconciliation(tmp_path, "o1", make_reconciliation())
    find_file(tmp_path, "o1").write_bytes(content)
    with pytest.raises(UnreadableError):
        read_reconciliation(tmp_path, "o1")


def test_an_organisation_id_that_is_a_path_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not an organisation id"):
        find_file(tmp_path, "../o1")
