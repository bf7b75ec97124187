import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

import pytest

from store.control.records import Id, Joined, Parsed, Shared, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Pet:
    id: Id
    owner: Annotated[str | None, Joined("people.name")]
    is_tame: bool
    notes: Annotated[list[str] | None, Parsed(json.loads)] = None


PETS = Table(
    "pets",
    Pet,
    "left join people on people.id = pets.owner_id",
    shared=Shared(added={"owner_id": int}, omitted=("notes",)),
)


@pytest.fixture
def db():
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("create table people (id, name)")
        db.execute("create table pets (id primary key, owner_id, is_tame, notes)")
        db.execute("insert into people values (1, 'Ann')")
        PETS.insert(db, {"id": "a", "owner_id": 1, "is_tame": True, "notes": '["old"]'})
        PETS.insert(db, {"id": "b", "owner_id": None, "is_tame": False})
        yield db


def test_a_record_has_its_own_columns_and_those_of_joined_tables(db):
    assert PETS.read(db, "order by pets.id") == [
        Pet(id="a", owner="Ann", is_tame=True, notes=["old"]),
        Pet(id="b", owner=None, is_tame=False),
    ]


def test_one_record_or_none_is_found(db):
    found = PETS.find(db, "where pets.id = ?", "b")
    assert found is not None
    assert found.is_tame is False
    assert PETS.find(db, "where pets.id = ?", "c") is None


def test_a_row_to_write_leaves_out_what_is_joined(db):
    assert set(PETS.make_row(Pet(id="c", owner="Ann", is_tame=True))) == {"id", "is_tame", "notes"}


def test_a_row_that_is_there_is_written_anew_by_its_key_alone(db):
    row = {"id": "b", "is_tame": True, "notes": '["new"]'}
    with pytest.raises(sqlite3.IntegrityError):
        PETS.insert(db, row)
    PETS.insert(db, row, key="id", kept=("notes",))
    assert PETS.find(db, "where pets.id = 'b'") == Pet(id="b", owner=None, is_tame=True)
    PETS.insert(db, Pet(id="b", owner="Ann", is_tame=False), key="id")
    PETS.insert(db, Pet(id="c", owner=None, is_tame=False), key="id")
    assert [pet.is_tame for pet in PETS.read(db, "order by pets.id")] == [True, False, False]


def test_rows_are_deleted_by_a_query(db):
    PETS.delete(db, "where id = ?", "a")
    assert [pet.id for pet in PETS.read(db)] == ["b"]


def test_what_is_shared_is_declared_with_its_types():
    assert PETS.list_shared() == {"id": Id, "is_tame": bool, "owner_id": int}
    assert Table("pets", Pet).list_shared() == {}
