import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, get_args

import pytest

from metering import token_counts
from metering.attribution import write_tags
from metering.billed_passes import may_be_billed
from metering.billing import Billing
from metering.entry import Outcome, UsageLogEntry, UsageSource
from metering.token_counts import UNKNOWN, ZERO, TokenCounts
from store.spool.format import Rejection
from store.traces.calls.run_report import read_run
from store.traces.sums import named_groups
from store.traces.sums.booking_sql import MAY_BE_BILLED
from store.traces.sums.usage_report import Grouping, Totals, read_usage
from tests.store.traffic import make_item, with_items

CALL = UsageLogEntry(
    entry_id="0",
    created_at="2026-06-01T10:11:12.131Z",
    proxy_endpoint_id="e1",
    slug="one",
    outcome="complete",
    usage_source="final",
    streamed=True,
    model="m1",
    tokens=TokenCounts(10, 2, 3, 4),
    cost_cents=Decimal("0.5"),
    duration_ms=100.0,
)
LATE = "2026-06-02T23:59:59.999Z"
GROUPINGS = get_args(Grouping.__value__)


@pytest.fixture
def recorded(traces):
    calls = [
        CALL,
        replace(CALL, model="m2", cost_cents=Decimal(2), created_at=LATE),
        replace(CALL, model="m3", cost_cents=None, created_at=LATE, proxy_endpoint_id="e2", slug="two"),
        replace(CALL, model=None, cost_cents=None, usage_source="none", outcome="upstream_error",
                created_at="2026-06-03T00:00:00.000Z", tokens=UNKNOWN),
    ]  # fmt: skip
    traces.insert([with_items(replace(call, entry_id=str(n))) for n, call in enumerate(calls)])
    traces.insert_rejections(
        "flush",
        [
            Rejection(hour=hour, organization_id="org_1", proxy_endpoint_id=id_, slug=slug, bucket=bucket, count=count)
            for hour, id_, slug, bucket, count in (
                ("2026-06-01T10", "e1", "one", "messages", 5),
                ("2026-06-01T10", "e1", "one", "count_tokens", 1),
                ("2026-06-04T00", "e3", "three", "messages", 7),
            )
        ],
    )  # fmt: skip


def test_before_anything_was_recorded_there_is_nothing(tmp_path):
    report = read_usage(tmp_path / "none.db", "day")
    assert report.totals == Totals()
    assert report.groups == []
    assert not (tmp_path / "none.db").exists()


def test_a_database_that_is_only_being_made_is_empty(tmp_path):
    (tmp_path / "traces.db").touch()
    assert read_usage(tmp_path / "traces.db", "model").totals == Totals()


def test_what_is_no_database_is_reported(tmp_path):
    (tmp_path / "traces.db").write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        read_usage(tmp_path / "traces.db", "model")


@pytest.mark.usefixtures("recorded")
def test_totals_are_the_same_however_they_are_grouped(traces_path):
    expected = Totals(
        calls=4,
        errors=1,
        tokens=ZERO + TokenCounts(30, 6, 9, 12),
        cost_cents=2.5,
        unpriced=1,
        unpriced_tokens=19,
        rejected=13,
    )
    for by in GROUPINGS:
        assert read_usage(traces_path, by).totals == expected


@pytest.mark.usefixtures("recorded")
def test_days_come_newest_first_with_what_was_rejected(traces_path):
    groups = read_usage(traces_path, "day").groups
    assert [(g.day, g.totals.calls, g.totals.rejected) for g in groups] == [
        ("2026-06-04", 0, 7),
        ("2026-06-03", 1, 0),
        ("2026-06-02", 2, 0),
        ("2026-06-01", 1, 6),
    ]


@pytest.mark.usefixtures("recorded")
def test_models_come_dearest_first_and_name_no_rejections(traces_path):
    groups = read_usage(traces_path, "model").groups
    assert [(g.model, g.totals.cost_cents) for g in groups] == [
        ("m2", 2.0),
        ("m1", 0.5),
        ("m3", 0.0),
        (None, 0.0),
    ]
    assert {g.totals.rejected for g in groups} == {None}


@pytest.mark.usefixtures("recorded")
def test_endpoints_are_named_by_id_and_slug(traces_path):
    groups = read_usage(traces_path, "endpoint").groups
    assert [
        (g.proxy_endpoint_id, g.slug, g.totals.calls, g.totals.unpriced, g.totals.rejected)
        for g in groups
    ] == [("e1", "one", 3, 0, 6), ("e2", "two", 1, 1, 0), ("e3", "three", 0, 0, 7)]


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("from_day", "to_day", "calls", "rejected"),
    [
        (date(2026, 6, 2), None, 3, 7),
        (None, date(2026, 6, 2), 3, 6),
        (date(2026, 6, 2), date(2026, 6, 2), 2, 0),
        (date(2026, 7, 1), None, 0, 0),
    ],
)
def test_days_are_inclusive(traces_path, from_day, to_day, calls, rejected):
    totals = read_usage(traces_path, "day", from_day, to_day).totals
    assert (totals.calls, totals.rejected) == (calls, rejected)


@pytest.mark.usefixtures("recorded")
def test_it_reads_while_somebody_writes(traces_path):
    with closing(sqlite3.connect(traces_path, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        writer.execute("update usage_hourly set entries = 99")
        assert read_usage(traces_path, "day").totals.calls == 4


@pytest.mark.parametrize("by", GROUPINGS)
def test_every_total_has_its_estimated_part(traces, traces_path, by):
    calls = [
        replace(CALL, usage_source="estimated", estimated_cents=Decimal("0.2")),
        replace(CALL, entry_id="1", usage_source="estimated", estimated_cents=Decimal("0.1")),
        replace(CALL, entry_id="2"),
        replace(
            CALL, entry_id="3", usage_source="none", outcome="proxy_restarted", cost_cents=None
        ),
    ]
    traces.insert([with_items(replace(call, tags=write_tags(["a"]))) for call in calls])
    report = read_usage(traces_path, by)
    for totals in (report.totals, report.groups[0].totals):
        assert totals.estimated_cents == pytest.approx(0.3)
        assert (totals.cost_cents, totals.maybe_billed, totals.unpriced) == (1.5, 1, 0)


def test_sql_and_code_agree_on_which_calls_may_have_been_billed(traces):
    values = [
        (outcome, status, source)
        for outcome in get_args(Outcome.__value__)
        for status in (None, 200, 299, 300, 429, 529)
        for source in get_args(UsageSource.__value__)
    ]
    traces.insert(
        [
            replace(CALL, entry_id=str(n), outcome=outcome, status_code=status, usage_source=source)
            for n, (outcome, status, source) in enumerate(values)
        ]
    )
    found = traces.connection.execute(
        f"select {MAY_BE_BILLED} from usage as u order by id"  # noqa: S608
    ).fetchall()
    assert [bool(row[0]) for row in found] == [may_be_billed(*each) for each in values]


@pytest.mark.parametrize("name", token_counts.NAMES)
def test_a_class_of_tokens_that_has_no_column_yet_is_zero(tmp_path, traces, traces_path, name):
    """The reader may be newer than the tables: no recorder has migrated that database yet."""
    traces.insert([with_items(replace(CALL, run_id="mine"))])
    older = tmp_path / "older.db"
    with closing(sqlite3.connect(older)) as db:
        traces.connection.backup(db)
        db.execute("drop view usage_log")
        db.execute("drop view usage_days")
        for table in ("usage", "usage_hourly"):
            db.execute(f"alter table {table} drop column {name}")
        db.commit()
    whole = ZERO + CALL.tokens
    known = replace(whole, **{name: 0})
    assert read_usage(traces_path, "day").totals.tokens == whole
    assert read_usage(older, "day").totals.tokens == known
    assert read_run(older, "mine").totals.tokens == whole  # of its line items


def test_the_value_of_a_subscription_and_spend_are_told_apart(traces, traces_path):
    """Calls that paid extra usage covers are spend, and so are those of which nothing tells."""
    billed: list[tuple[int, Billing | None, bool | None]] = [
        (1, "subscription", None),
        (2, "subscription", False),
        (4, "subscription", True),
        (8, "api_key", None),
        (16, None, None),
        (32, "customer", None),
    ]
    mine = replace(CALL, run_id="mine")
    calls = [
        replace(mine, entry_id=str(n), cost_cents=Decimal(n), billing=billing, overage=overage)
        for n, billing, overage in billed
    ]
    traces.insert([with_items(call) for call in calls])
    for totals in (
        read_usage(traces_path, "day").totals,
        read_usage(traces_path, "model").groups[0].totals,
        read_run(traces_path, "mine").totals,
    ):
        assert (totals.cost_cents, totals.value_cents, totals.spend_cents) == (63, 35, 28)


def test_clients_credentials_and_billings_are_groups_most_expensive_first(traces, traces_path):
    sent: list[tuple[int, str, str, Billing | None, bool | None]] = [
        (1, "claude-cli/2.1", "aa", "subscription", None),
        (2, "claude-cli/2.2", "bb", "subscription", True),
        (4, "python", "aa", "api_key", None),
        (8, "python", "cc", None, None),
    ]
    calls = [
        replace(CALL, entry_id=str(cents), cost_cents=Decimal(cents), client=client,
                credential_hmac=credential, billing=billing, overage=overage)
        for cents, client, credential, billing, overage in sent
    ]  # fmt: skip
    traces.insert([with_items(call) for call in calls])

    def costs(by: Grouping, field: str) -> list[tuple[str | None, float, float]]:
        return [
            (getattr(each, field), each.totals.cost_cents, each.totals.value_cents)
            for each in read_usage(traces_path, by).groups
        ]

    assert costs("client", "client") == [("python", 12, 0), ("claude-cli", 3, 1)]
    assert costs("credential", "credential_hmac") == [("cc", 8, 0), ("aa", 5, 1), ("bb", 2, 0)]
    assert costs("billing", "billing") == [
        (None, 8, 0), ("api_key", 4, 0), ("overage", 2, 0), ("subscription", 1, 1),
    ]  # fmt: skip
    (first, *_) = read_usage(traces_path, "client").groups
    assert (first.model, first.slug, first.day, first.totals.rejected) == (None, None, None, None)


def test_tokens_that_are_not_billed_or_have_no_price_are_told_apart(traces, traces_path):
    items = (
        make_item(model="m1", component="input", quantity=5, cents=Decimal(1)),
        make_item(model="m2", component="input", quantity=7, cents=None),
        make_item(model="m3", quantity=9, cents=Decimal(0), unbilled_reason="declined_hop"),
    )
    traces.insert([replace(CALL, run_id="mine", cost_cents=None, cost_items=items)])
    for report in (read_usage(traces_path, "model").groups, read_run(traces_path, "mine").models):
        assert {
            each.model: (each.totals.calls, each.totals.tokens.input_tokens,
                         each.totals.unpriced_tokens, each.totals.unbilled_tokens)
            for each in report
        } == {"m1": (1, 5, 0, 0), "m2": (0, 7, 7, 0), "m3": (0, 0, 0, 9)}  # fmt: skip


def list_groups(path, by, *period):
    """Return name, calls and cents of each group."""
    return [
        (getattr(each, by), each.totals.calls, each.totals.cost_cents)
        for each in read_usage(path, by, *period).groups
    ]


@pytest.fixture
def attributed(traces):
    calls: list[dict[str, Any]] = [
        {"attributed_user": "ann", "project": "shop", "tags": write_tags(["env:prod", "nightly"])},
        {"attributed_user": "ann", "tags": write_tags(["env:dev", "user"]), "session_id": "s1"},
        {"attributed_user": "bob", "session_id": "s1", "agent_id": "a1", "created_at": LATE},
        {"cost_cents": Decimal(3), "session_id": "s2"},
        {"cost_cents": None, "usage_source": "none"},
    ]
    traces.insert(
        [with_items(replace(CALL, entry_id=str(n), **call)) for n, call in enumerate(calls)]
    )


@pytest.mark.usefixtures("attributed")
def test_groups_by_user_and_project_have_all_calls(traces_path):
    assert list_groups(traces_path, "user") == [(None, 2, 3.0), ("ann", 2, 1.0), ("bob", 1, 0.5)]
    assert list_groups(traces_path, "project") == [(None, 4, 4.0), ("shop", 1, 0.5)]
    late = date(2026, 6, 2)
    assert list_groups(traces_path, "user", late) == [("bob", 1, 0.5)]
    assert list_groups(traces_path, "user", None, date(2026, 6, 1)) == [
        (None, 2, 3.0),
        ("ann", 2, 1.0),
    ]
    assert list_groups(traces_path, "user", date(2026, 6, 3)) == []
    for by in ("user", "project"):
        report = read_usage(traces_path, by)
        assert sum((each.totals.tokens for each in report.groups), ZERO) == report.totals.tokens


@pytest.mark.usefixtures("attributed")
def test_a_call_is_in_the_group_of_each_of_its_tags(traces_path):
    assert sorted(list_groups(traces_path, "tag")) == [
        ("env:dev", 1, 0.5),
        ("env:prod", 1, 0.5),
        ("nightly", 1, 0.5),
        ("user", 1, 0.5),
    ]
    report = read_usage(traces_path, "tag")
    assert (report.totals.calls, report.totals.cost_cents) == (5, 4.5)


@pytest.mark.usefixtures("attributed")
def test_groups_by_session_and_agent_have_all_calls(traces_path):
    assert list_groups(traces_path, "session") == [("s2", 1, 3.0), ("s1", 2, 1.0), (None, 2, 0.5)]
    assert list_groups(traces_path, "agent") == [(None, 4, 4.0), ("a1", 1, 0.5)]
    assert list_groups(traces_path, "session", date(2026, 6, 2)) == [("s1", 1, 0.5)]


def test_sessions_that_name_none_are_groups(traces, traces_path):
    traces.insert([with_items(replace(CALL, entry_id=str(n))) for n in range(3)])
    traces.connection.execute("insert into unnamed_calls values (1, 1), (2, 1)")
    traces.connection.execute(
        "insert into sessions (session_id, title_order, started_at, ended_at, slug,"
        " peak_prompt_tokens, calls, errors, unpriced, input_tokens, output_tokens,"
        " cache_creation_input_tokens, cache_read_input_tokens, cost_cents, estimated_cents, value_cents)"
        " values ('unnamed-1', '', ?, ?, '', 0, 2, 0, 0, 0, 0, 0, 0, 1.0, 0, 0)",
        (CALL.created_at, CALL.created_at),
    )
    assert list_groups(traces_path, "session") == [("unnamed-1", 2, 1.0), (None, 1, 0.5)]


@pytest.mark.usefixtures("attributed")
@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("user", [("(other)", 3, 3.5), ("ann", 2, 1.0)]),
        ("session", [("s2", 1, 3.0), ("(other)", 4, 1.5)]),
        ("project", [(None, 4, 4.0), ("shop", 1, 0.5)]),
    ],
)
def test_the_most_expensive_groups_are_listed_and_the_rest_is_one(
    traces_path, monkeypatch, by, groups
):
    monkeypatch.setattr(named_groups, "MAX_GROUPS", 1)
    assert list_groups(traces_path, by) == groups


def test_a_database_that_no_newer_recorder_has_opened_has_calls_without_a_user(traces, traces_path):
    traces.insert([with_items(CALL)])
    traces.connection.execute("drop table tags_hourly")
    assert list_groups(traces_path, "user") == [(None, 1, 0.5)]
    assert list_groups(traces_path, "tag") == []
