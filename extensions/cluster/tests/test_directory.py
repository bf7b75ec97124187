"""Other nodes know what the web node publishes."""

from datetime import timedelta

import orjson
import pytest

from extensions.cluster.checks import RecordError
from extensions.cluster.directory import Follower, Publisher, check_row, read_rows
from extensions.cluster.keys import DIRECTORY
from extensions.cluster.statements import PAGE_CHECKING_KEY, PAGE_SIGNING_KEY, load_signing_key
from runtime import clock
from store import database
from store.control import api_keys, endpoints, retention
from store.control.database import ControlDatabase
from store.control.retention import Rule


@pytest.fixture
def nodes(tmp_path, client):
    """Return the database of the web node, that of a proxy node, and what brings over a change."""
    with (
        ControlDatabase(tmp_path / "web.db") as web,
        ControlDatabase(tmp_path / "proxy.db", checks_references=False) as proxy,
    ):
        web.set_up()
        reading = database.open_readonly(tmp_path / "web.db", busy_timeout_s=1.0)
        publisher, follower = Publisher(reading, client), Follower(proxy, client)

        def bring_over():
            assert publisher.run_round()
            assert follower.run_round()
            with web.reading() as first, proxy.reading() as second:
                assert read_rows(first) == read_rows(second)

        bring_over()
        yield web, proxy, bring_over
        reading.close()


def test_keys_come_over_without_the_people_to_whom_they_belong(nodes):
    web, proxy, bring_over = nodes
    with web.transaction() as db:
        (user,) = db.execute("select id from users").fetchone()
        (organization,) = db.execute("select id from organizations").fetchone()
        _, raw = api_keys.create(db, organization, user, "key")
    bring_over()
    with proxy.reading() as db:
        assert api_keys.is_known(db, raw)
        assert db.execute("select count(*) from users").fetchone() == (0,)


def test_an_organisation_goes_with_its_endpoints_and_another_gets_their_slugs(nodes):
    web, _, bring_over = nodes
    with web.transaction() as db:
        db.execute("delete from proxy_endpoints")
        db.execute("delete from memberships")
        db.execute("delete from organizations")
        db.execute("insert into organizations(id, name, created_at) values('new', 'New', '2026')")
        endpoints.create(db, "new", "default", "default")
    bring_over()


def test_a_renamed_organisation_keeps_its_endpoints(nodes):
    web, proxy, bring_over = nodes
    with web.transaction() as db:
        db.execute("update organizations set name = 'Other'")
    bring_over()
    with proxy.reading() as db:
        assert db.execute("select slug from proxy_endpoints").fetchall() == [("default",)]


def test_rules_of_retention_are_applied_to_the_copy_and_then_no_longer(nodes):
    web, other, bring_over = nodes
    with web.transaction() as db:
        (organization,) = db.execute("select id from organizations").fetchone()
        retention.write(db, organization, Rule(entry_days=30), clock.now())
        retention.write(db, organization, Rule(entry_days=7), clock.now(), "endpoint")
    bring_over()
    tomorrow = clock.now() + timedelta(days=2)
    with other.reading() as db:
        assert retention.list_due(db, tomorrow) == [organization]
        assert retention.find(db, organization, "endpoint") == Rule(entry_days=7)
        assert retention.find_rules(db, organization, tomorrow).limits.entries_before is not None
    with web.transaction() as db:
        retention.write(db, organization, Rule(), clock.now())
        retention.write(db, organization, Rule(), clock.now(), "endpoint")
    bring_over()
    with other.reading() as db:
        assert retention.list_due(db, tomorrow) == []


def test_keys_of_statements_are_not_in_the_directory(nodes, client):
    web, other, _ = nodes
    load_signing_key(web)
    with web.reading() as db:
        assert not any(PAGE_CHECKING_KEY in key or PAGE_SIGNING_KEY in key for key in read_rows(db))
    assert other.find_secret(PAGE_CHECKING_KEY) is None


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("organizations:../../etc", ["../../etc", "x", "2026", "UTC"]),
        ("organizations:a", ["b", "x", "2026", "UTC"]),
        ("organizations:a", ["a", "x"]),
        ("organizations:a", {"id": "a"}),
        ("proxy_endpoints:a", ["a", "b", "n", "s/../..", None, 0, "2026", None]),
        ("proxy_endpoints:a", ["a", "b", "n", "slug", "sometimes", 0, "2026", None]),
        ("api_keys:a", ["a", "b", "c", "n", {"hex": "zz"}, "p", "2026"]),
        ("budgets:a", ["a", "b", None, "day", -1, "warn", "2026"]),
        ("retention_rules:a:", ["a", "", 0, None, None]),
        ("retention_rules:a:", ["a", "", True, None, None]),
        ("secrets:signing of pages", ["signing of pages", {"hex": "00" * 32}]),
    ],
)
def test_a_row_that_no_node_writes_is_none(key, row):
    with pytest.raises(RecordError):
        check_row(key, orjson.dumps(row))


def test_a_damaged_row_leaves_the_one_that_is_there_and_others_are_written(nodes, client):
    web, proxy, bring_over = nodes
    with proxy.reading() as db:
        before = read_rows(db)
    (organization,) = (key for key in before if key.startswith("organizations:"))
    client.hset(DIRECTORY, organization, b"\xff" * 1000)
    client.hset(DIRECTORY, mapping={"users:u": b"[]", b"\xff": b"[]", "": b""})
    with web.transaction() as db:
        db.execute("update proxy_endpoints set name = 'Other'")
    bring_over()
    with proxy.reading() as db:
        after = read_rows(db)
        assert after[organization] == before[organization]
        assert db.execute("select name from proxy_endpoints").fetchall() == [("Other",)]
