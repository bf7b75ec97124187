import sqlite3
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dashboard.call_filters import FILTERS, NONE, parse_call_filters
from metering.attribution import write_tags
from runtime.errors import InvalidInputError
from store.traces.database import TraceDatabase
from store.traces.sums.requested_models import mark
from tests.store.traffic import make_entry

NOW = datetime(2026, 3, 14, 9, 26, tzinfo=UTC)
CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "other model": {"model": "claude-haiku-4-5"},
    "asked": {"model": None, "request_model": "claude-x", "outcome": "upstream_error"},
    "other slug": {"slug": "it's"},
    "version": {"client": "claude-cli/2.1.3"},
    "next version": {"client": "claude-cli v3"},
    "longer name": {"client": "claude-clicker/1"},
    "overage": {"billing": "subscription", "overage": True},
    "covered": {"billing": "subscription"},
    "session": {"session_id": "s1"},
    "agent": {"session_id": "s1", "agent_id": "a1"},
    "overloaded": {"status_code": 529, "outcome": "upstream_error", "error_type": "overloaded_error"},
    "left": {"outcome": "client_disconnected"},
    "dear": {"cost_cents": Decimal(12)},
    "credential": {"credential_hmac": "c0ffee"},
    "ann": {"attributed_user": "Ann", "project": "shop"},
    "tagged": {"project": "shop", "tags": write_tags(["env:prod", "nightly"])},
    "staged": {"tags": write_tags(["env:stage"])},
    "early": {"created_at": "2026-02-28T23:59:59.999Z"},
    "batch": {"product": "batch"},
}  # fmt: skip
ALL = {*CALLS}


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = tmp_path_factory.mktemp("filters") / "traces.db"
    with TraceDatabase(path) as traces:
        at = {"created_at": "2026-03-14T08:30:00.000Z"}
        traces.insert([make_entry(entry_id=name, **at | call) for name, call in CALLS.items()])
        connection = traces.connection
        connection.execute(
            "insert into unnamed_calls select id, 1 from usage where entry_id in ('plain', 'dear')"
        )
        connection.execute(
            "insert into tool_uses (usage_id, place, tool, server, problem)"
            " select id, 0, 'Bash', null, 'exit 1' from usage where entry_id = 'plain'"
            " union select id, 0, 'query', 'db', null from usage where entry_id = 'dear'"
        )
        connection.execute(
            "insert into labels (session_id, usage_id, label, at) select 's1', null, 'odd', ''"
            " union select 'unnamed-1', null, 'later', ''"
            " union select null, id, 'odd', '' from usage where entry_id = 'ann'"
        )
        yield connection


def parse(*arguments):
    return parse_call_filters(arguments, NOW)


def find(db, *arguments):
    """Return the names of the calls that are chosen."""
    condition = parse(*arguments).condition()
    sql = f"select entry_id from usage where {condition.sql}"  # noqa: S608 - what is tested
    found = {name for (name,) in db.execute(sql, condition.values)}
    # What people read and edit chooses the same calls, and so does it where tables are joined.
    written = f"select entry_id from usage_log where {condition.write_out()}"  # noqa: S608
    assert {name for (name,) in db.execute(written)} == found
    joined = parse(*arguments).condition("u.")
    sql = f"select u.entry_id from usage as u join usage as o on o.id = u.id where {joined.sql}"  # noqa: S608
    assert {name for (name,) in db.execute(sql, joined.values)} == found
    return found


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("model", "claude-haiku-4-5", {"other model"}),
        ("model", mark("claude-x"), {"asked"}),
        ("model", NONE, {"asked"}),
        ("endpoint", "it's", {"other slug"}),
        ("slug", "it's", {"other slug"}),
        ("client", "claude-cli", {"version", "next version"}),
        ("client", "claude-cli/2.1.3", {"version"}),
        ("billing", "overage", {"overage"}),
        ("billing", "subscription", {"covered"}),
        ("billing", NONE, ALL - {"overage", "covered"}),
        ("session", "s1", {"session", "agent"}),
        ("session", "unnamed-1", {"plain", "dear"}),
        ("session", NONE, ALL - {"session", "agent", "plain", "dear"}),
        ("agent", "a1", {"agent"}),
        ("agent", NONE, ALL - {"agent"}),
        ("failed", "1", {"asked", "overloaded"}),
        ("outcome", "client_disconnected", {"left"}),
        ("error", "overloaded_error", {"overloaded"}),
        ("status", "529", {"overloaded"}),
        ("cost", "0.10", {"dear"}),
        ("credential", "c0ffee", {"credential"}),
        ("credential", NONE, ALL - {"credential"}),
        ("tag.user", "Ann", {"ann"}),
        ("tag.user", "ann", set()),
        ("tag.project", "shop", {"ann", "tagged"}),
        ("tag.project", NONE, ALL - {"ann", "tagged"}),
        ("tag.env", "PROD", {"tagged"}),
        ("tag.Env", "stage", {"staged"}),
        ("tag.env", NONE, ALL - {"tagged", "staged"}),
        ("tag", "nightly", {"tagged"}),
        ("tag", "env", set()),
        ("tag", NONE, ALL - {"tagged", "staged"}),
        ("period", "today", ALL - {"early"}),
        ("period", "2026-02-01..2026-02-28", {"early"}),
        ("until", "2026-03", None),
        ("until", "2026-03-01", {"early"}),
        ("since", "2026-03-14T08:30:00Z", ALL - {"early"}),
        ("since", "2026-03-14T08:31", set()),
        ("product", "batch", {"batch"}),
        ("tool", "Bash", {"plain"}),
        ("tool", "query", {"dear"}),
        ("server", "db", {"dear"}),
        ("server", NONE, {"plain"}),
        ("tool_failed", "1", {"plain"}),
        ("label", "odd", {"session", "agent", "ann"}),
        ("label", "later", {"plain", "dear"}),
        ("label", NONE, ALL - {"session", "agent", "ann", "plain", "dear"}),
        ("cache_break", "1", set()),
        ("order", "cost", ALL),
        ("model", "", ALL),
    ],
)  # fmt: skip
def test_a_filter_chooses_calls(db, name, value, found):
    if found is None:
        with pytest.raises(InvalidInputError):
            find(db, (name, value))
    else:
        assert find(db, (name, value)) == found


def test_values_of_one_name_are_alternatives_and_different_names_must_all_hold(db):
    either = [("tag.env", "prod"), ("tag.env", "stage"), ("tag.env", NONE)]
    assert find(db, *either[:2]) == {"tagged", "staged"}
    assert find(db, *either) == ALL
    assert find(db, *either[:2], ("tag.project", "shop")) == {"tagged"}
    assert find(db, ("cost", "0.10"), ("cost", "0.20")) == {"dear"}
    assert find(db, ("model", mark("claude-x")), ("model", "claude-haiku-4-5")) == {
        "asked", "other model",
    }  # fmt: skip
    assert find(db, ("billing", "overage"), ("billing", "subscription"), ("failed", "1")) == set()


def test_sessions_are_those_with_such_calls(db):
    def find_sessions(*arguments):
        found = []
        for condition in (
            parse(*arguments).condition_of_sessions("s.id"),
            parse(*arguments).walk_sessions("s.id"),
        ):
            sql = f"select s.id from (select 's1' as id union select 'unnamed-1') as s where {condition.sql}"  # noqa: S608
            found.append({name for (name,) in db.execute(sql, condition.values)})
        assert found[0] == found[1]
        return found[0]

    assert find_sessions() == {"s1", "unnamed-1"}
    assert find_sessions(("agent", "a1")) == {"s1"}
    assert find_sessions(("cost", "0.10"), ("period", "7d")) == {"unnamed-1"}
    assert find_sessions(("failed", "1")) == set()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("failed", "yes"), ("failed", NONE), ("cost", "much"), ("cost", "nan"), ("cost", NONE),
        ("cost", "-1"), ("status", "5xx"), ("since", "yesterday"), ("until", NONE),
        ("model", "x" * 501), ("tag.env", "a\0b"), ("period", "8d"),
    ],
)  # fmt: skip
def test_a_value_that_is_none_of_a_filter_is_refused_with_its_name(name, value):
    with pytest.raises(InvalidInputError, match=name) as refused:
        parse((name, value))
    assert refused.value.field == name


def test_a_filter_has_a_bounded_number_of_values():
    with pytest.raises(InvalidInputError, match="at most 20 values"):
        parse(*(("model", f"m{number}") for number in range(21)))


def test_what_is_chosen_is_said_in_words_with_the_way_to_drop_it():
    filters = parse(
        ("period", "7d"), ("failed", "1"), ("model", "a"), ("model", "b"), ("agent", NONE),
        ("tag.env", "prod"), ("cost", "0.10"), ("tag.user", "Ann"),
    )  # fmt: skip
    assert filters.describe() == (
        "7 days, Failed, Model a, b, Agent main, Tag env: prod, At least $0.10, User Ann"
    )
    chip = filters.chips()[1]
    assert (chip.name, chip.title, chip.words) == ("model", "Model", "a, b")
    assert filters.without(chip.name).as_arguments() == [
        ("period", "7d"), ("failed", "1"), ("agent", NONE),
        ("tag.env", "prod"), ("cost", "0.10"), ("tag.user", "Ann"),
    ]  # fmt: skip


def test_a_link_adds_a_filter_to_those_that_are_chosen():
    filters = parse(("period", "7d"), ("tag.project", "shop"))
    assert filters.only("failed").address("/calls", by="session") == (
        "/calls?period=7d&tag.project=shop&failed=1&by=session"
    )
    assert filters.only("tag.project", "").in_period(None).address("/calls") == (
        "/calls?tag.project=%28none%29"
    )
    assert parse().address("/calls") == "/calls"


values = st.text(max_size=20) | st.sampled_from(
    ["1", NONE, "0.5", "529", "2026-01-02", "unnamed-4"]
)


@given(st.lists(st.tuples(st.sampled_from([*FILTERS, "tag.k", "tag.'"]), values), max_size=4))
def test_filters_come_back_from_the_addresses_they_make_and_no_value_is_sql(arguments):
    try:
        filters = parse(*arguments)
    except InvalidInputError:
        return
    assert parse(*filters.as_arguments()) == filters
    condition = filters.condition()
    assert condition.sql.count("?") == len(condition.values)
    with sqlite3.connect(":memory:") as empty:
        empty.execute("create table t (a)")
        columns = [
            "id",
            "slug",
            "model",
            "request_model",
            "credential_hmac",
            "client",
            "billing",
            "overage",
            "product",
            "session_id",
            "agent_id",
            "outcome",
            "error_type",
            "status_code",
            "created_at",
            "cost_cents",
            "attributed_user",
            "project",
            "tags",
        ]
        empty.execute(f"create table usage ({', '.join(columns)})")
        empty.execute("create table tags (usage_id, name, value)")
        empty.execute("create table unnamed_calls (usage_id, first_id)")
        empty.execute("create table cache_breaks (usage_id)")
        empty.execute("create table tool_uses (usage_id, tool, server, problem)")
        empty.execute("create table labels (id, session_id, usage_id, label)")
        empty.execute("create table credential_accounts (fingerprint, account)")
        sql = f"select count(*) from usage where {condition.sql}"  # noqa: S608
        assert empty.execute(sql, condition.values).fetchone() == (0,)
        sql = f"select count(*) from usage where {condition.write_out()}"  # noqa: S608
        assert empty.execute(sql).fetchone() == (0,)
