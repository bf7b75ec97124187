"""The attributes of a run, in the heads of its calls."""

import logging

import pytest

from metering.attribution import Attribution
from recorder.run_attributes import MAX_RUNS, RunAttributes
from runtime import clock
from store.control import run_attributes
from store.control.database import ControlDatabase
from tests.store.spool.heads import make_head

OF_RUN = Attribution(user="ann", project="acme/shop", tags=("branch:main", "x"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "control.db"


@pytest.fixture
def organization(path):
    with ControlDatabase(path) as control:
        control.set_up()
        found = control.get_local_organization().id
        with control.transaction() as db:
            run_attributes.write(db, found, "r1", OF_RUN, clock.now())
    return found


@pytest.fixture
def runs(path):
    runs = RunAttributes(path)
    yield runs
    runs.close()


def complete(runs, organization, run_id="r1", **changes):
    """Complete a head; return user, project and tags."""
    head = make_head(organization_id=organization, run_id=run_id, **changes)
    runs.complete(head)
    return head.attributed_user, head.project, head.tags


def test_a_call_has_what_its_run_says(runs, organization):
    expected = ("ann", "acme/shop", '["branch:main","x"]')
    assert complete(runs, organization) == expected
    assert complete(runs, organization) == expected, "as it is remembered"


def test_what_a_call_says_itself_stands(runs, organization):
    own = {"attributed_user": "bob", "tags": '["mine"]'}
    assert complete(runs, organization, **own) == ("bob", "acme/shop", '["mine"]')
    assert complete(runs, organization, project="p") == ("ann", "p", '["branch:main","x"]')


def test_nothing_of_a_run_is_kept_with_metadata_only(runs, organization):
    own = {"attributed_user": "bob", "metadata_only": True}
    assert complete(runs, organization, **own) == ("bob", None, None)


@pytest.mark.parametrize("run_id", [None, "other"])
def test_another_run_has_nothing_of_it(runs, organization, run_id):
    assert complete(runs, organization, run_id) == (None, None, None)
    assert complete(runs, "another-organization") == (None, None, None)


def test_a_run_that_begins_later_is_found(runs, organization, path):
    assert complete(runs, organization, "r2")[0] is None
    with ControlDatabase(path) as control, control.transaction() as db:
        run_attributes.write(db, organization, "r2", Attribution(user="eve"), clock.now())
    assert complete(runs, organization, "r2") == ("eve", None, None)


def test_many_runs_do_not_fill_the_memory(runs, organization, monkeypatch):
    monkeypatch.setattr(RunAttributes, "_read", lambda *_: OF_RUN)
    for number in range(MAX_RUNS + 10):
        complete(runs, organization, f"n{number}")
    assert len(runs._known) == MAX_RUNS


def test_without_a_database_calls_are_recorded_all_the_same(tmp_path):
    runs = RunAttributes(tmp_path / "control.db")
    assert complete(runs, "o") == (None, None, None)
    assert not (tmp_path / "control.db").exists()


def test_a_damaged_database_is_logged_once(path, caplog):
    path.write_bytes(b"no database at all" * 1000)
    runs = RunAttributes(path)
    with caplog.at_level(logging.ERROR):
        assert complete(runs, "o") == (None, None, None)
        assert complete(runs, "o") == (None, None, None)
    assert len(caplog.records) == 1
    runs.close()
