"""Tables of ``control.db`` with their records: frozen dataclasses whose fields are the columns.

The record is the only declaration of the columns: of those read, those written and, if other
machines of the service need the table, those sent to them. Some field types restrict a text further
than SQLite does."""

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
    """The annotation of a field that is read from another table: its ``column``, with the table's name."""

    column: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """The annotation of a field with the function that parses its column, unless the column is null."""

    parse: Callable[[Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The part of a table that is sent to other machines of the service.

    The columns are those of the record, without ``omitted`` and with ``added``. ``key`` has the columns
    that identify a row. ``where`` is an SQL condition for the rows to send."""

    key: Sequence[str] = ("id",)
    added: Mapping[str, Any] = field(default_factory=dict)
    omitted: Sequence[str] = ()
    where: str = "true"


class Table[Record]:
    """A table, read and written as records. The ``end`` of a query is the SQL after ``select … from``."""

    def __init__(
        self, name: str, record: type[Record], joins: str = "", *, shared: Shared | None = None
    ) -> None:
        """Describe the table ``name``. ``joins`` is the SQL that joins the tables of ``Joined`` fields."""
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
        """Return the records of the query that ends with ``end``."""
        return [self.make(row) for row in db.execute(f"{self.select} {end}", parameters)]

    def find(self, db: sqlite3.Connection, end: str, *parameters: object) -> Record | None:
        """Return the first record of the query that ends with ``end``, or None."""
        row = db.execute(f"{self.select} {end}", parameters).fetchone()
        return None if row is None else self.make(row)

    def make(self, row: Sequence[Any]) -> Record:
        """Return the record for a row that the ``select`` of this table has read."""
        values = dict(zip(self._names, row, strict=True))
        for name, parse in self._parsers.items():
            if values[name] is not None:
                values[name] = parse(values[name])
        return self._record(**values)

    def make_row(self, record: Record) -> dict[str, object]:
        """Return the values of a record by column, without ``Joined`` fields."""
        return {name: getattr(record, name) for name in self._types}

    def insert(
        self,
        db: sqlite3.Connection,
        new: Record | Mapping[str, object],
        *,
        key: str | None = None,
        kept: Collection[str] = (),
    ) -> None:
        """Insert a record, or a row given by its columns.

        ``key`` has the columns that identify a row, separated by commas. With ``key`` an existing row is
        replaced, except for its columns ``kept``."""
        row = new if isinstance(new, Mapping) else self.make_row(new)
        marks = ", ".join(f":{name}" for name in row)
        changed = ", ".join(f"{name} = excluded.{name}" for name in row if name not in kept)
        conflict = "" if key is None else f" on conflict ({key}) do update set {changed}"
        db.execute(f"insert into {self.name} ({', '.join(row)}) values ({marks}){conflict}", row)  # noqa: S608

    def delete(self, db: sqlite3.Connection, end: str, *parameters: object) -> None:
        """Delete the rows that ``end``, the rest of the SQL statement, selects."""
        db.execute(f"delete from {self.name} {end}", parameters)  # noqa: S608 - our own name

    def list_shared(self) -> Mapping[str, Any]:
        """Return the types of the columns that are sent to other machines, by name."""
        if self.shared is None:
            return {}
        kept = {name: of for name, of in self._types.items() if name not in self.shared.omitted}
        return kept | dict(self.shared.added)
