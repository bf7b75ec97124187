from importlib import import_module
from pkgutil import iter_modules

import store.control
from store.control import activity_log, api_keys, audit, endpoints, people
from tests import ROOT
from tests.sources import find_sources


def test_it_says_who_did_what_newest_first(db):
    ann = people.create_user(db, "ann@example.org")
    audit.write(db, "ours", ann, endpoints.CREATED, "1", {"name": "Café", "metadata_only": True})
    audit.write(db, "ours", None, people.USER_CREATED, "2", {"email": None})
    audit.write(db, "theirs", ann, api_keys.DELETED, "3", {})
    newest, oldest = activity_log.read(db, "ours")
    assert (newest.user_id, newest.email, newest.action) == (None, None, "user.create")
    assert (oldest.user_id, oldest.email, oldest.subject_id) == (ann, "ann@example.org", "1")
    assert oldest.details == {"name": "Café", "metadata_only": True}
    assert oldest.at <= newest.at


def test_it_outlives_whoever_acted(db):
    ann = people.create_user(db, "ann@example.org")
    audit.write(db, "ours", ann, endpoints.CREATED, "1", {})
    people.delete_user(db, ann)
    (entry,) = activity_log.read(db, "ours")
    assert entry.email == "ann@example.org"


ROOMS = ("dashboard", "extensions", "manage", "recorder", "store")


def list_declared():
    """Return the module, name and activity of each that a noun declares."""
    for found in iter_modules(store.control.__path__):
        module = import_module(f"store.control.{found.name}")
        for name, value in vars(module).items():
            if isinstance(value, audit.Activity):
                yield found.name, name, value


def test_the_log_has_words_for_every_activity():
    assert sorted(activity_log.ACTIVITIES) == sorted(each.name for _, _, each in list_declared())


def test_every_activity_is_written_somewhere():
    text = "\n".join(path.read_text() for room in ROOMS for path in find_sources(room))
    unused = [
        f"{module}.{name}"
        for module, name, _ in list_declared()
        if f"{module}.{name}" not in text
        and (ROOT / f"store/control/{module}.py").read_text().count(name) < 2
    ]
    assert unused == []


def test_an_action_of_a_newer_version_is_called_by_its_name(db):
    db.execute(
        "insert into audit_log (at, organization_id, action, subject_id, details)"
        " values ('2026-01-01T00:00:00.000Z', 'ours', 'plan.change', '1', '{}')"
    )
    audit.write(db, "ours", None, api_keys.DELETED, "2", {})
    assert [entry.activity for entry in activity_log.read(db, "ours")] == [
        "deleted the key",
        "plan.change",
    ]
