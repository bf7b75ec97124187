import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from runtime import clock
from runtime.errors import (
    ConflictError,
    ForbiddenError,
    InvalidCursorError,
    InvalidInputError,
    LimitReachedError,
    NotFoundError,
    SlugTakenError,
)
from store.control import activity_log
from store.control.management import Management


def test_the_local_caller_owns_the_first_organisation(management, control):
    caller = management.local_caller()
    assert caller.role == "owner"
    assert caller.organization_id == control.get_local_organization().id
    assert management.find_caller(None) == caller


def test_everything_stays_within_an_organisation(management, people):
    ours = management.create_endpoint(people.ann, "Ours", "ours")
    theirs = management.create_endpoint(people.cid, "Theirs", "theirs")
    assert management.list_endpoints(people.bob).items == [ours]
    assert management.list_endpoints(people.dee).items == [theirs]
    for key in (theirs.id, theirs.slug):
        for call in (
            management.get_endpoint,
            management.update_endpoint,
            management.delete_endpoint,
        ):
            with pytest.raises(NotFoundError):
                call(people.ann, key)
    with pytest.raises(SlugTakenError):
        management.create_endpoint(people.ann, "x", "theirs")
    management.delete_endpoint(people.bob, "ours")
    with pytest.raises(SlugTakenError):
        management.create_endpoint(people.cid, "x", "ours")
    assert management.create_endpoint(people.ann, "x", "ours").id == ours.id


def test_a_cursor_shows_nobody_anothers_endpoints(management, people):
    for caller in (people.ann, people.cid):
        for _ in range(3):
            management.create_endpoint(caller, "x")
    cursor = management.list_endpoints(people.ann, limit=1).next_cursor
    organizations = {e.organization_id for e in management.list_endpoints(people.cid, cursor).items}
    assert organizations <= {people.cid.organization_id}


def test_a_cursor_of_endpoints_is_none_of_keys(management, people):
    for name in ("One", "Two"):
        management.create_endpoint(people.ann, name)
        management.create_key(people.ann, name)
    cursor = management.list_endpoints(people.ann, limit=1).next_cursor
    with pytest.raises(InvalidCursorError):
        management.list_keys(people.ann, cursor)


def test_keys_are_their_owners_alone(management, people):
    key, _ = management.create_key(people.ann, "Laptop")
    assert management.list_keys(people.ann).items == [key]
    assert management.list_keys(people.bob).items == []
    with pytest.raises(ForbiddenError):
        management.delete_key(people.bob, key.id)
    for stranger in (people.cid, people.dee):
        with pytest.raises(NotFoundError):
            management.delete_key(stranger, key.id)
    management.delete_key(people.ann, key.id)
    with pytest.raises(NotFoundError):
        management.delete_key(people.ann, key.id)


def test_a_key_authenticates_its_owner_until_it_is_deleted(management, people):
    key, raw = management.create_key(people.bob, "Laptop")
    assert management.authenticate(raw).user_id == people.bob.user_id
    assert management.authenticate(raw[:-1] + "!") is None
    management.delete_key(people.bob, key.id)
    assert management.authenticate(raw) is None


def test_use_is_noted_at_first_and_then_once_a_minute(management, people, now):
    _, raw = management.create_key(people.ann, "Laptop")

    def last_used_at():
        (key,) = management.list_keys(people.ann).items
        return key.last_used_at

    assert last_used_at() is None
    first = clock.format_ms(now.at)
    management.authenticate(raw)
    assert last_used_at() == first
    now.at += timedelta(seconds=59)
    management.authenticate(raw)
    assert last_used_at() == first
    now.at += timedelta(seconds=1)
    management.authenticate(raw)
    assert last_used_at() == clock.format_ms(now.at)


def test_a_busy_writer_holds_no_key_up(management, people, tmp_path):
    _, raw = management.create_key(people.ann, "Laptop")
    with closing(sqlite3.connect(tmp_path / "control.db", isolation_level=None)) as writer:
        writer.execute("begin immediate")
        assert management.authenticate(raw).user_id == people.ann.user_id
    assert management.list_keys(people.ann).items[0].last_used_at is None
    management.authenticate(raw)
    assert management.list_keys(people.ann).items[0].last_used_at is not None


def test_the_audit_log_says_who_did_what_and_keeps_no_secret(management, people, control):
    endpoint = management.create_endpoint(people.ann, "Café #1")
    management.update_endpoint(people.bob, endpoint.id, streaming="buffered")
    key, raw = management.create_key(people.bob, "Laptop")
    management.delete_key(people.bob, key.id)
    management.delete_endpoint(people.ann, endpoint.slug)
    with control.transaction() as db:
        log = activity_log.read(db, people.ann.organization_id)
    assert [(entry.email, entry.action) for entry in log] == [
        ("ann@example.org", "endpoint.delete"),
        ("bob@example.org", "key.delete"),
        ("bob@example.org", "key.create"),
        ("bob@example.org", "endpoint.update"),
        ("ann@example.org", "endpoint.create"),
        (None, "user.create"),
        (None, "user.create"),
    ]
    assert log[3].details["streaming"] == "buffered"
    assert raw[8:] not in repr(log)


def test_a_user_who_cannot_join_is_not_made(management, users):
    with pytest.raises(NotFoundError):
        users.create("ann@example.org", join="nowhere")
    with pytest.raises(NotFoundError):
        management.find_caller("ann@example.org")


def test_a_deleted_user_is_out_and_what_the_organisation_has_stays(management, people, users):
    _, raw = management.create_key(people.bob, "Laptop")
    endpoint = management.create_endpoint(people.bob, "Bob's")
    users.delete("bob@example.org")
    assert management.authenticate(raw) is None
    assert management.list_endpoints(people.ann).items == [endpoint]
    with pytest.raises(NotFoundError):
        users.delete("bob@example.org")


def test_the_only_owner_stays_while_others_are_there(people, users):
    with pytest.raises(ConflictError, match="only owner"):
        users.delete("ann@example.org")
    users.delete("bob@example.org")
    users.delete("ann@example.org")


def test_slugs_that_stay_reserved_are_bounded_too(control, tmp_path, now, people):
    management = Management(control, tmp_path, now, max_endpoints=1)
    for number in range(10):
        management.create_endpoint(people.ann, "x", f"slug-{number}")
        management.delete_endpoint(people.ann, f"slug-{number}")
    with pytest.raises(LimitReachedError, match="10 slugs"):
        management.create_endpoint(people.ann, "x", "one-more")
    assert management.create_endpoint(people.cid, "x", "one-more").slug == "one-more"


def test_an_endpoint_less_makes_room_for_another(control, tmp_path, now, people):
    management = Management(control, tmp_path, now, max_endpoints=1)
    management.create_endpoint(people.ann, "x", "first")
    with pytest.raises(LimitReachedError, match="1 proxy endpoints"):
        management.create_endpoint(people.ann, "x", "second")
    management.delete_endpoint(people.ann, "first")
    assert management.create_endpoint(people.ann, "x", "first").slug == "first"


@pytest.fixture
def with_upstreams(control, tmp_path, now):
    return Management(control, tmp_path, now, upstreams={"eu", "foundry"})


def test_an_endpoint_has_an_upstream_that_is_named(with_upstreams, control, people):
    manage, ann = with_upstreams, people.ann
    endpoint = manage.create_endpoint(ann, "x", "x", upstream="eu")
    assert endpoint.upstream == "eu"
    assert manage.update_endpoint(ann, "x", name="y").upstream == "eu"
    assert manage.update_endpoint(ann, "x", upstream="service").upstream is None
    assert manage.create_endpoint(ann, "z", "z").upstream is None
    for refused in ("nowhere", "", "https://evil.example"):
        with pytest.raises(InvalidInputError, match="eu, foundry"):
            manage.update_endpoint(ann, "x", upstream=refused)
        with pytest.raises(InvalidInputError):
            manage.create_endpoint(ann, "w", "w", upstream=refused)
    found = control._db.execute(
        "select json_extract(details, '$.upstream') from audit_log where subject_id = ? order by id",
        (endpoint.id,),
    )
    assert [upstream for (upstream,) in found] == ["eu", "eu", None]


def test_where_clients_send_calls_already_only_an_owner_changes_the_upstream(
    with_upstreams, people
):
    manage, ann, bob = with_upstreams, people.ann, people.bob
    assert manage.create_endpoint(bob, "x", "x", upstream="eu").upstream == "eu"
    for other in ("foundry", "service"):
        with pytest.raises(ForbiddenError, match="to which upstream"):
            manage.update_endpoint(bob, "x", upstream=other)
    assert manage.update_endpoint(bob, "x", upstream="eu", name="y").name == "y"
    manage.delete_endpoint(bob, "x")
    with pytest.raises(ForbiddenError):
        manage.create_endpoint(bob, "x", "x", upstream="service")
    assert manage.create_endpoint(bob, "x", "x").upstream == "eu", "as the deleted one had it"
    assert manage.update_endpoint(ann, "x", upstream="foundry").upstream == "foundry"


def test_an_endpoint_whose_upstream_is_gone_can_still_be_changed(
    with_upstreams, people, management
):
    with_upstreams.create_endpoint(people.ann, "x", "x", upstream="eu")
    kept = management.update_endpoint(people.ann, "x", upstream="eu", name="y")
    assert (kept.name, kept.upstream) == ("y", "eu")
    assert management.update_endpoint(people.ann, "x", upstream="service").upstream is None
