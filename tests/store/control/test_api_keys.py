import hashlib
import re

import pytest

from store.control import api_keys, people


@pytest.fixture
def organization_id(db):
    return people.create_organization(db, "Ours").id


@pytest.fixture
def ann(db, organization_id):
    user_id = people.create_user(db, "ann@example.org")
    people.join(db, organization_id, user_id, "member")
    return user_id


def test_a_key_is_sk_and_256_bits(db, organization_id, ann):
    key, raw = api_keys.create(db, organization_id, ann, "Laptop")
    assert re.fullmatch(r"sk_[A-Za-z0-9_-]{43}", raw)
    assert key.key_prefix == raw[:8] + "..."
    assert key.last_used_at is None


def test_only_the_hash_of_a_key_is_kept(db, organization_id, ann):
    _, raw = api_keys.create(db, organization_id, ann, "Laptop")
    (row,) = db.execute("select * from api_keys").fetchall()
    assert hashlib.sha256(raw.encode()).digest() in row
    assert not any(raw[8:] in str(value) for value in row)


def test_a_key_stands_for_its_owner(db, organization_id, ann):
    key, raw = api_keys.create(db, organization_id, ann, "Laptop")
    holder = api_keys.find_holder(db, raw)
    assert holder is not None
    assert (holder.key_id, holder.user_id, holder.organization_id, holder.role) == (
        key.id,
        ann,
        organization_id,
        "member",
    )


@pytest.mark.parametrize("change", [str.lower, lambda raw: raw[:-1], lambda raw: raw + "A"])
def test_what_is_not_exactly_a_key_is_none(db, organization_id, ann, change):
    _, raw = api_keys.create(db, organization_id, ann, "Laptop")
    assert api_keys.find_holder(db, change(raw)) is None


@pytest.mark.parametrize("raw", ["", "sk_", "sk_" + "A" * 43, "sk_" + "é" * 43, "\x00", "\ud800"])
def test_what_was_never_given_out_is_none(db, raw):
    assert api_keys.find_holder(db, raw) is None


def test_the_key_of_somebody_who_left_stands_for_nobody(db, organization_id, ann):
    _, raw = api_keys.create(db, organization_id, ann, "Laptop")
    db.execute("delete from memberships where user_id = ?", (ann,))
    assert api_keys.find_holder(db, raw) is None


def test_a_page_of_keys_is_read_from_an_index(db):
    (plan,) = db.execute(
        "explain query plan select * from api_keys where user_id = ? and organization_id = ?"
        " and (created_at, id) < (?, ?) order by created_at desc, id desc limit ?",
        ("u", "o", "2026", "x", 20),
    ).fetchall()
    assert "api_keys_newest" in plan[3]
