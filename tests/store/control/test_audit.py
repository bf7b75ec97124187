from typing import get_args

import pytest

from store.control import audit, people
from store.control.database import ControlDatabase


@pytest.fixture
def db(tmp_path):
    with ControlDatabase(tmp_path / "control.db") as control, control.transaction() as db:
        yield db


def test_it_says_who_did_what_newest_first(db):
    ann = people.create_user(db, "ann@example.org")
    audit.write(db, "ours", ann, "endpoint.create", "1", {"name": "Café", "metadata_only": True})
    audit.write(db, "ours", None, "user.create", "2", {"email": None})
    audit.write(db, "theirs", ann, "key.delete", "3", {})
    newest, oldest = audit.read(db, "ours")
    assert (newest.user_id, newest.email, newest.action) == (None, None, "user.create")
    assert (oldest.user_id, oldest.email, oldest.subject_id) == (ann, "ann@example.org", "1")
    assert oldest.details == {"name": "Café", "metadata_only": True}
    assert oldest.at <= newest.at


def test_it_outlives_whoever_acted(db):
    ann = people.create_user(db, "ann@example.org")
    audit.write(db, "ours", ann, "endpoint.create", "1", {})
    people.delete_user(db, ann)
    (entry,) = audit.read(db, "ours")
    assert entry.email == "ann@example.org"


def test_every_action_has_words_for_people():
    assert set(audit.ACTIVITIES) == set(get_args(audit.Action.__value__))


def test_an_action_of_a_newer_version_is_called_by_its_name(db):
    db.execute(
        "insert into audit_log (at, organization_id, action, subject_id, details)"
        " values ('2026-01-01T00:00:00.000Z', 'ours', 'plan.change', '1', '{}')"
    )
    audit.write(db, "ours", None, "key.delete", "2", {})
    assert [entry.activity for entry in audit.read(db, "ours")] == [
        "deleted the key",
        "plan.change",
    ]
