"""The rows of a table, as templates display them.

Datasette prepares every value of every row for display, and calls a plugin hook for each. A list of
calls displays a third of its columns, and there are no plugins. So a row here has the stored values, and
a displayed value is made when a template reads it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from dashboard.tables.lean_datasette import (
    Datasette,
    display_columns_and_rows,
    format_bytes,
    is_url,
    path_from_row_pks,
    tilde_encode,
    truncate_url,
)
from metering.formats import format_count

_NOTHING = Markup("&nbsp;")


class Cell(NamedTuple):
    """A value of a row. ``raw`` is the stored value; ``value`` is displayed, and may be shortened."""

    column: str
    raw: Any
    value: object
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The properties of a table that its cells depend on. ``key`` is the column that links to the row."""

    urls: Any
    database: str
    name: str
    pks: Sequence[str]
    columns: Sequence[str]
    key: str | None
    foreign_tables: Mapping[str, str]
    max_shown: int


class Row:
    """A row: its stored values by column, and its cells in order."""

    __slots__ = ("_table", "_values")

    def __init__(self, table: Table, values: Any) -> None:
        self._table = table
        self._values = values

    def __getitem__(self, column: str) -> Any:
        try:
            value = self._values[column]
        except IndexError as error:  # of a row of SQLite
            raise KeyError(column) from error
        return value["value"] if isinstance(value, dict) else value

    def __iter__(self) -> Iterator[Cell]:
        key = self._table.key
        if key is not None:
            path = self._path(quote=False)
            yield Cell(key, path, self._link_to_row(path), "pk")
        for column in self._table.columns:
            if column != key:
                value = self[column]
                kind = "none" if value is None else type(value).__name__
                yield Cell(column, value, self._display(column, self._values[column]), kind)

    def _display(self, column: str, value: Any) -> object:
        if value is None or value == "":
            return _NOTHING
        if isinstance(value, bytes):
            return self._link_to_download(column, len(value))
        if isinstance(value, dict):
            return self._link_to_other(column, value["value"], value["label"])
        text, most = str(value), self._table.max_shown
        if is_url(text.strip()):
            address = text.strip()
            return Markup('<a href="{}">{}</a>').format(address, truncate_url(address, most))
        return f"{text[:most]}…" if most and len(text) > most else text

    def _path(self, *, quote: bool) -> str:
        path: str = path_from_row_pks(self._values, self._table.pks, not self._table.pks, quote)
        return path

    def _link_to_row(self, path: str) -> Markup:
        table = self._table.urls.table(self._table.database, self._table.name)
        return Markup('<a href="{}/{}">{}</a>').format(table, self._path(quote=True), path)

    def _link_to_download(self, column: str, size: int) -> Markup:
        table = self._table
        path = self._path(quote=True)
        address = table.urls.row_blob(table.database, table.name, path, column)
        short = format_bytes(size)
        title = Markup(' title="{}"').format(short) if "bytes" not in short else ""
        unit = "byte" if size == 1 else "bytes"
        return Markup(
            '<a class="blob-download" href="{}"{}>&lt;Binary:&nbsp;{}&nbsp;{}&gt;</a>'
        ).format(address, title, format_count(size), unit)

    def _link_to_other(self, column: str, key: object, label: object) -> Markup:
        """Return a link to the row that a foreign key refers to."""
        table = self._table.urls.table(self._table.database, self._table.foreign_tables[column])
        link = Markup('<a href="{}/{}">{}</a>').format(
            table, tilde_encode(str(key)), escape(label) or "-"
        )
        return link if label == key else Markup("{}&nbsp;<em>{}</em>").format(link, key)


async def display(
    datasette: Datasette,
    database_name: str,
    table_name: str,
    description: Sequence[Sequence[Any]],
    rows: Sequence[Any],
    link_column: bool = False,
    truncate_cells: int = 0,
    sortable_columns: set[str] | None = None,
) -> tuple[list[dict[str, Any]], list[Row]]:
    """Return the columns and the rows of a page; it replaces Datasette's display_columns_and_rows."""
    database = datasette.get_database(database_name)
    pks = await database.primary_keys(table_name)
    foreign_keys = await database.foreign_keys_for_table(table_name)
    table = Table(
        urls=datasette.urls,
        database=database_name,
        name=table_name,
        pks=pks,
        columns=[column[0] for column in description],
        key=pks[0] if link_column and len(pks) == 1 else None,
        foreign_tables={each["column"]: each["other_table"] for each in foreign_keys},
        max_shown=truncate_cells,
    )
    columns, _ = await display_columns_and_rows(
        datasette, database_name, table_name, description, (), link_column, 0, sortable_columns
    )
    return columns, [Row(table, row) for row in rows]
