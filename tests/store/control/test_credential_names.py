"""Names of credentials, which owners give and everybody in the organisation sees."""

import pytest

from runtime.errors import InvalidInputError, LimitReachedError, NotFoundError
from store.control import activity_log, credential_names

FINGERPRINT = "7d1c09aa54ef8b021f2e3d4c5b6a7988"


def list_names(management, caller):
    found = management.names.list(caller)
    return {each.fingerprint: each.name for each in found}


def test_a_name_is_given_replaced_and_removed(management, people, control):
    management.names.put(people.ann, FINGERPRINT, "ci key")
    management.names.put(people.ann, FINGERPRINT, " nightly key ")
    management.names.put(people.ann, "account", "team plan")
    assert list_names(management, people.bob) == {
        FINGERPRINT: "nightly key",
        "account": "team plan",
    }
    with control.reading() as db:
        names = credential_names.read_names(db, people.ann.organization_id)
        log = activity_log.read(db, people.ann.organization_id)
    assert names == list_names(management, people.ann)
    assert [each.details["name"] for each in log[:3]] == ["team plan", "nightly key", "ci key"]
    management.names.delete(people.ann, FINGERPRINT)
    assert list_names(management, people.ann) == {"account": "team plan"}


def test_names_are_those_of_one_organisation(management, people):
    management.names.put(people.ann, FINGERPRINT, "ci key")
    assert list_names(management, people.cid) == {}
    with pytest.raises(NotFoundError):
        management.names.delete(people.cid, FINGERPRINT)
    management.names.put(people.cid, FINGERPRINT, "another")
    assert list_names(management, people.ann) == {FINGERPRINT: "ci key"}


@pytest.mark.parametrize("fingerprint", ["", "sk-ant-api03 x", "a" * 65, "a/b", "ä", "a\n"])
def test_what_is_no_fingerprint_is_refused(management, people, fingerprint):
    with pytest.raises(InvalidInputError, match="by its fingerprint"):
        management.names.put(people.ann, fingerprint, "ci key")


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201])
def test_a_name_is_one_line(management, people, name):
    with pytest.raises(InvalidInputError):
        management.names.put(people.ann, FINGERPRINT, name)


def test_names_are_bounded(management, people, monkeypatch):
    monkeypatch.setattr(credential_names, "MAX_NAMES", 2)
    management.names.put(people.ann, "a", "1")
    management.names.put(people.ann, "b", "2")
    with pytest.raises(LimitReachedError):
        management.names.put(people.ann, "c", "3")
    management.names.put(people.ann, "b", "4")
    assert list_names(management, people.ann) == {"a": "1", "b": "4"}
