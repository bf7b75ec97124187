"""Other nodes know what the web node publishes."""

from datetime import timedelta

import orjson
import pytest

from extensions.cluster.checks import RecordError
from extensions.cluster.directory import Follower, Publisher
from extensions.cluster.keys import DIRECTORY
from extensions.cluster.shared_rows import check_row, read_rows
from extensions.cluster.statements import PAGE_CHECKING_KEY, PAGE_SIGNING_KEY, load_signing_key
from runtime import clock
from store import database
from store.control import api_keys, endpoints, retention
from store.control.database import FINGERPRINT_KEY, ControlDatabase
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


ORGANIZATION = {"id": "a", "name": "x", "created_at": "2026", "time_zone": "UTC"}
ENDPOINT = {
    "id": "a",
    "organization_id": "b",
    "name": "n",
    "slug": "slug",
    "streaming": None,
    "metadata_only": 0,
    "upstream": None,
    "created_at": "2026",
    "deleted_at": None,
}
KEY = {
    "id": "a",
    "user_id": "b",
    "organization_id": "c",
    "name": "n",
    "key_prefix": "p",
    "created_at": "2026",
    "key_sha256": {"hex": "00"},
}
BUDGET = {
    "id": "a",
    "organization_id": "b",
    "proxy_endpoint_id": None,
    "period": "day",
    "limit_usd": 1,
    "action": "warn",
    "warn_at": "0.5,0.9",
    "of_kind": "project",
    "of_value": "shop/checkout",
    "created_at": "2026",
}
RULE = {
    "organization_id": "a",
    "proxy_endpoint_id": "",
    "text_days": 1,
    "entry_days": None,
    "max_bytes": None,
}
SECRET = {"name": FINGERPRINT_KEY, "value": {"hex": "00" * 32}}


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("organizations:a", ORGANIZATION),
        ("proxy_endpoints:a", ENDPOINT),
        ("api_keys:a", KEY),
        ("budgets:a", BUDGET),
        ("retention_rules:a:", RULE),
        (f"secrets:{FINGERPRINT_KEY}", SECRET),
    ],
)
def test_a_row_of_a_node_is_taken(key, row):
    written = check_row(key, orjson.dumps(row))
    assert written is not None
    assert orjson.loads(written) == row


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("organizations:../../etc", ORGANIZATION | {"id": "../../etc"}),
        ("organizations:a", ORGANIZATION | {"id": "b"}),
        ("organizations:a", ORGANIZATION | {"time_zone": "x" * 101}),
        ("organizations:a", {"id": "a", "name": "x"}),
        ("organizations:a", ["a", "x", "2026", "UTC"]),
        ("proxy_endpoints:a", ENDPOINT | {"slug": "s/../.."}),
        ("proxy_endpoints:a", ENDPOINT | {"streaming": "sometimes"}),
        ("proxy_endpoints:a", ENDPOINT | {"upstream": "https://x"}),
        ("proxy_endpoints:a", ENDPOINT | {"metadata_only": 2}),
        ("api_keys:a", KEY | {"key_sha256": {"hex": "zz"}}),
        ("budgets:a", BUDGET | {"limit_usd": -1}),
        ("budgets:a", BUDGET | {"of_kind": "model"}),
        ("budgets:a", BUDGET | {"period": "year"}),
        ("retention_rules:a:", RULE | {"text_days": 0}),
        ("retention_rules:a:", RULE | {"text_days": True}),
        ("retention_rules:a:/", RULE | {"proxy_endpoint_id": "/"}),
        ("secrets:signing of pages", SECRET | {"name": "signing of pages"}),
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
