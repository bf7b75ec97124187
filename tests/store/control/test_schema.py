"""``control.db`` of earlier versions."""

from contextlib import closing

import pytest

from runtime.errors import LimitReachedError
from store import database
from store.control import endpoints, schema
from store.control.database import ControlDatabase
from tests.store.earlier import make_earlier

SHAPE = "select type, name, sql from sqlite_schema where name not like 'sqlite%' order by 2"


@pytest.fixture(autouse=True)
def _databases_are_copies():
    """Let the migrations make each database."""


@pytest.fixture
def oldest_path(tmp_path):
    """One with the first shape: an organisation, its user, a live and a deleted endpoint."""
    path = tmp_path / "control.db"
    with closing(database.open_database(path, make_earlier(schema, 1))) as db:
        db.execute("insert into organizations values ('o', 'Local', '2026')")
        db.execute("insert into users values ('u', null, '2026')")
        db.execute("insert into memberships values ('o', 'u', 'owner', '2026')")
        for number, deleted_at in enumerate((None, "2026-02")):
            db.execute(
                "insert into proxy_endpoints values (?, 'o', 'x', ?, null, 0, '2026', ?)",
                (f"e{number}", f"slug-{number}", deleted_at),
            )
    return path


def test_the_oldest_schema_grows_into_the_newest_and_keeps_its_rows(oldest_path, tmp_path):
    with ControlDatabase(oldest_path) as grown, ControlDatabase(tmp_path / "new.db") as new:
        (endpoint,) = grown.list_endpoints("o")
        assert endpoint.slug == "slug-0"
        assert grown.find_user(None) == "u"
        with grown.reading() as old_db, new.reading() as new_db:
            assert old_db.execute(SHAPE).fetchall() == new_db.execute(SHAPE).fetchall()


def test_migrating_twice_is_a_noop(oldest_path):
    shapes = []
    for _ in range(2):
        with ControlDatabase(oldest_path) as control, control.reading() as db:
            shapes.append((db.execute(SHAPE).fetchall(), list(db.iterdump())))
    assert shapes[0] == shapes[1]


def test_endpoints_of_before_count_and_are_counted_by_an_index(oldest_path):
    with ControlDatabase(oldest_path) as control, control.reading() as db:
        endpoints.check_count(db, "o", 2)
        with pytest.raises(LimitReachedError):
            endpoints.check_count(db, "o", 1)
        plan = db.execute(
            "explain query plan select count(distinct slug) from proxy_endpoints"
            " where organization_id = 'o'"
        ).fetchall()
    assert "proxy_endpoints_organization" in plan[0][3]
