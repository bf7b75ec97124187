"""Other nodes know what the web node publishes."""

from datetime import timedelta

import pytest

from cluster.directory import Follower, Publisher, read_rows
from runtime import clock
from store import database
from store.control import api_keys, endpoints, retention
from store.control.database import PAGE_CHECKING_KEY, PAGE_SIGNING_KEY, ControlDatabase
from store.control.retention import Rule
from store.control.statements import load_signing_key


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


def test_the_key_that_checks_statements_comes_over_and_the_one_that_signs_them_does_not(nodes):
    web, other, bring_over = nodes
    load_signing_key(web)
    bring_over()
    assert other.find_secret(PAGE_CHECKING_KEY) == web.find_secret(PAGE_CHECKING_KEY)
    assert other.find_secret(PAGE_SIGNING_KEY) is None
