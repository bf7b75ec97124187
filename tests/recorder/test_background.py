"""Work in the background, for one organisation after another."""

import sqlite3

import pytest

from recorder.background import RETRY_S, BackgroundWork


class Steps:
    """Work that takes some steps of each organisation, and fails where it is told to."""

    def __init__(self, **left):
        self.left = left
        self.errors: dict[str, Exception] = {}
        self.done: list[str] = []
        self.connections: list[sqlite3.Connection] = []

    def __call__(self, organization_id, connection):
        if organization_id in self.errors:
            raise self.errors[organization_id]
        self.done.append(organization_id)
        self.connections.append(connection)
        self.left[organization_id] -= 1
        return self.left[organization_id] > 0


class MakeWork:
    """Makes work that begins with the organisations of its steps, and has its clock."""

    def __init__(self, databases):
        self.databases = databases
        self.now_s = 100.0

    def __call__(self, steps, **rules):
        failure = "%s cannot be worked on: %s"
        work = BackgroundWork(self.databases, lambda: self.now_s, steps, failure, **rules)
        for organization_id in steps.left:
            self.databases.open(organization_id)
            work.begin(organization_id)
        return work


@pytest.fixture
def make_work(databases):
    return MakeWork(databases)


@pytest.mark.parametrize(("alternates", "order"), [(True, "abab"), (False, "aabb")])
def test_organisations_take_turns_or_one_is_finished_before_the_next(make_work, alternates, order):
    steps = Steps(a=2, b=2)
    work = make_work(steps, alternates=alternates)
    while work.run_step():
        pass
    assert "".join(steps.done) == order
    assert not work.run_step()
    assert len(steps.done) == len(order)


def test_work_begins_after_a_pause_that_more_work_does_not_prolong(make_work):
    steps = Steps(a=1)
    work = make_work(steps, pause_s=2.0)
    for _ in range(2):
        assert work.run_step(), "there is something to do, soon"
        make_work.now_s += 1
        work.begin("a")
    assert not work.run_step()
    assert steps.done == ["a"]


@pytest.mark.parametrize("error", [sqlite3.OperationalError("locked"), RuntimeError("made up")])
@pytest.mark.parametrize("alternates", [True, False])
def test_what_fails_waits_alone_and_is_tried_again_with_an_open_database(
    make_work, databases, caplog, error, alternates
):
    steps = Steps(a=1, b=2)
    steps.errors["a"] = error
    work = make_work(steps, alternates=alternates)
    before = databases.open("a").connection
    for _ in range(5):
        assert work.run_step()
    assert steps.done == ["b", "b"]
    assert caplog.messages == [f"a cannot be worked on: {error}"]
    assert ("Traceback" in caplog.text) == isinstance(error, RuntimeError)
    steps.errors.clear()
    make_work.now_s += RETRY_S
    assert not work.run_step()
    assert steps.done == ["b", "b", "a"]
    assert steps.connections[-1] is not before
    steps.connections[-1].execute("select 1")


def test_work_on_a_database_that_was_moved_away_ends_and_makes_no_other(make_work, tmp_path):
    work = make_work(Steps(a=1))
    folder = tmp_path / "traces" / "a"
    folder.rename(tmp_path / "moved")
    assert not work.run_step()
    assert not folder.exists()
