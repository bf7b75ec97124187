import sqlite3

import pytest

from store.control import api_keys, people
from store.control.database import (
    ControlDatabase,
    InvalidSlugError,
    NotFoundError,
    SlugDirectory,
)
from tests.proxy_endpoints import create_endpoint, delete_endpoint


@pytest.fixture(autouse=True)
def _databases_are_copies():
    """Let the migrations make each database."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "control.db"


@pytest.fixture
def control(path):
    with ControlDatabase(path) as control:
        control.set_up()
        yield control


@pytest.fixture
def organization(control):
    return control.get_local_organization()


@pytest.fixture
def directory(path):
    directory = SlugDirectory(path)
    yield directory
    directory.close()


def test_the_directory_knows_the_keys_that_were_made(control, organization, directory):
    with control.transaction() as db:
        user_id = people.find_user(db, None) or ""
        _, raw = api_keys.create(db, organization.id, user_id, "Laptop")
    assert directory.knows_key(raw)
    assert not directory.knows_key(raw[:-1] + ("a" if raw[-1] != "a" else "b"))


def test_the_directory_cannot_tell_a_key_without_its_file(tmp_path):
    with pytest.raises(sqlite3.Error):
        SlugDirectory(tmp_path / "none.db").knows_key("sk_")


def test_a_first_start_makes_an_organisation_and_default_and_a_second_nothing(control):
    assert control.set_up() is False
    organization = control.get_local_organization()
    assert [e.slug for e in control.list_endpoints(organization.id)] == ["default"]


def test_default_is_not_made_again_once_it_was_deleted(control, organization):
    delete_endpoint(control, organization.id, "default")
    assert control.set_up() is False
    assert control.list_endpoints(organization.id) == []


def test_before_the_first_start_there_is_nothing_to_manage(path):
    with ControlDatabase(path) as control, pytest.raises(NotFoundError, match="taximeter up"):
        control.get_local_organization()


def test_a_slug_is_made_from_the_name_and_gets_a_suffix_when_taken(control, organization):
    first = create_endpoint(control, organization.id, "Café #1")
    second = create_endpoint(control, organization.id, "Café #1")
    assert first.slug == "cafe-1"
    assert second.slug.startswith("cafe-1-")


@pytest.mark.parametrize("slug", ["", "A", "a_b", "-a", "a-", "a--b", "a" * 64, "ä", "a\n"])
def test_what_is_no_slug_is_refused(control, organization, slug):
    with pytest.raises(InvalidSlugError):
        create_endpoint(control, organization.id, "x", slug)


def test_a_secret_is_made_once_and_differs_by_name(control):
    assert control.get_secret("a") == control.get_secret("a")
    assert control.get_secret("a") != control.get_secret("b")
    assert len(control.get_secret("a")) == 32


def test_the_directory_sees_what_is_created_and_deleted_at_once(control, organization, directory):
    assert directory.find("new") is None
    created = create_endpoint(control, organization.id, "New", "new", "buffered")
    assert directory.find("new") == created
    delete_endpoint(control, organization.id, "new")
    assert directory.find("new") is None


def test_the_directory_uses_an_index(control):
    (row,) = control._db.execute(
        "explain query plan select id from proxy_endpoints where slug = 'x' and deleted_at is null"
    )
    assert "USING INDEX proxy_endpoints_" in row[3]


def test_the_last_good_answer_stands_in_only_while_the_file_cannot_be_read(
    control, organization, directory, path
):
    known = directory.find("default")
    away = path.with_name("away.db")
    directory.close()
    control.close()
    path.rename(away)
    assert directory.find("default") == known
    with pytest.raises(sqlite3.Error):
        directory.find("never-seen")
    away.rename(path)
    with ControlDatabase(path) as again:
        delete_endpoint(again, organization.id, "default")
    assert directory.find("default") is None
