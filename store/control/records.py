"""Tables of ``control.db`` with their records: frozen dataclasses whose fields are the columns.

A record is the one declaration of its columns: of what is read, what is written and, of a table that other
machines of the service need, what they are told. Some types say more of a text than SQLite's does.
"""

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, get_args, get_origin

type Id = str
"""The id of a row, or a slug: letters, digits, hyphens and underscores."""
type Instant = str
"""An instant in UTC, as ISO 8601."""
type Line = str
"""A short line of text without control characters. ``str`` is any text."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The column of another table that a field is read from, in an annotation of the field."""

    column: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """The function that makes the value of a field of what its column has, unless that is null."""

    parse: Callable[[Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The part of a table that other machines of the service are told.

    It has the columns of the record, without those ``omitted`` and with those ``added``. ``key`` are the
    columns that tell its rows apart, ``where`` which rows there are."""

    key: Sequence[str] = ("id",)
    added: Mapping[str, Any] = field(default_factory=dict)
    omitted: Sequence[str] = ()
    where: str = "true"


class Table[Record]:
    """A table, read and written as records. The end of a query follows its ``select``."""

    def __init__(
        self, name: str, record: type[Record], joins: str = "", *, shared: Shared | None = None
    ) -> None:
        """Read fields that are ``Joined`` from the tables in ``joins``."""
        self.name = name
        self.shared = shared
        self._record = record
        self._types: dict[str, Any] = {}  # of the columns that the table has itself
        self._parsers: dict[str, Callable[[Any], object]] = {}
        self._names = [each.name for each in fields(record)]  # type: ignore[arg-type]
        columns = []
        for each in fields(record):  # type: ignore[arg-type]
            of, *notes = get_args(each.type) if get_origin(each.type) is Annotated else [each.type]
            joined = [note.column for note in notes if isinstance(note, Joined)]
            columns += joined or [f"{name}.{each.name}"]
            if not joined:
                self._types[each.name] = of
            parsers = [note.parse for note in notes if isinstance(note, Parsed)]
            if parsers or of is bool:
                (self._parsers[each.name],) = parsers or [bool]
        self.columns = ", ".join(columns)
        self.select = f"select {self.columns} from {name} {joins}".rstrip()  # noqa: S608 - our own names

    def read(self, db: sqlite3.Connection, end: str = "", *parameters: object) -> list[Record]:
        """Return the records of a query."""
        return [self.make(row) for row in db.execute(f"{self.select} {end}", parameters)]

    def find(self, db: sqlite3.Connection, end: str, *parameters: object) -> Record | None:
        """Return the first record of a query, or None."""
        row = db.execute(f"{self.select} {end}", parameters).fetchone()
        return None if row is None else self.make(row)

    def make(self, row: Sequence[Any]) -> Record:
        """Return the record of a row that ``select`` has read."""
        values = dict(zip(self._names, row, strict=True))
        for name, parse in self._parsers.items():
            if values[name] is not None:
                values[name] = parse(values[name])
        return self._record(**values)

    def make_row(self, record: Record) -> dict[str, object]:
        """Return the values of a record by the table's own columns, without what is joined to it."""
        return {name: getattr(record, name) for name in self._types}

    def insert(
        self,
        db: sqlite3.Connection,
        new: Record | Mapping[str, object],
        *,
        key: str | None = None,
        kept: Collection[str] = (),
    ) -> None:
        """Insert a record, or a row by its columns.

        With ``key``, the columns that tell rows apart, one that is there is written anew, but for its
        columns ``kept``."""
        row = new if isinstance(new, Mapping) else self.make_row(new)
        marks = ", ".join(f":{name}" for name in row)
        changed = ", ".join(f"{name} = excluded.{name}" for name in row if name not in kept)
        conflict = "" if key is None else f" on conflict ({key}) do update set {changed}"
        db.execute(f"insert into {self.name} ({', '.join(row)}) values ({marks}){conflict}", row)  # noqa: S608

    def delete(self, db: sqlite3.Connection, end: str, *parameters: object) -> None:
        """Delete the rows of a query."""
        db.execute(f"delete from {self.name} {end}", parameters)  # noqa: S608 - our own name

    def list_shared(self) -> Mapping[str, Any]:
        """Return the types of the columns that other machines are told, by their names."""
        if self.shared is None:
            return {}
        kept = {name: of for name, of in self._types.items() if name not in self.shared.omitted}
        return kept | dict(self.shared.added)
