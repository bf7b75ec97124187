"""Descriptions of tables and columns: ``tables.toml``, compared with the tables of the schema.

Columns of token classes, and the column ``component``, are described from the declarations of these in
code. Descriptions are Markdown with code in backquotes, for the table reference. Pages show them without
markup.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from dashboard.tables.metadata.declarations import Declaration, MetadataError, Words, parse
from metering.components import TOKEN_COMPONENTS, WEB_SEARCH
from metering.token_counts import TOKEN_CLASSES

FILE = "tables.toml"
_DECLARED = {each.name: each.about for each in TOKEN_CLASSES} | {
    "component": f"{', '.join(each.name for each in TOKEN_COMPONENTS)} or {WEB_SEARCH.name}."
}

type Schema = Mapping[str, Sequence[str]]  # the columns of each table and view


class Table(Declaration):
    """A table or view: its description, how a page sorts it, and the descriptions of columns that only it
    has."""

    title: Words
    description: Words
    sort_desc: str | None = None
    size: int | None = None
    label_column: str | None = None
    facets: list[str] | None = None
    columns: dict[str, Words] = Field(default_factory=dict)

    def list_named_columns(self) -> list[str]:
        """Return all columns that this declaration names: for sorting, labels, facets and descriptions."""
        named = [self.sort_desc, self.label_column, *(self.facets or ()), *self.columns]
        return [name for name in named if name is not None]


class DatabasePage(Declaration):
    """The page that lists tables and queries, without the ``hidden`` tables."""

    title: Words
    description: Words
    hidden: list[str]


class Descriptions(Declaration):
    """All descriptions. ``columns`` describes columns that mean the same in several tables."""

    title: Words
    database: DatabasePage
    columns: dict[str, Words]
    tables: dict[str, Table]

    def describe_column(self, table: str, column: str) -> str:
        """Return the description of a column, in Markdown. Raises MetadataError."""
        description = (
            self.tables[table].columns.get(column)
            or self.columns.get(column)
            or _DECLARED.get(column)
        )
        if description is None:
            raise MetadataError(
                f"{FILE}: {table}.{column} has no description:"
                f" add {column} to [tables.{table}.columns], or to [columns]"
            )
        return description


def read_descriptions(folder: Path) -> Descriptions:
    """Return the descriptions in ``tables.toml``, not yet compared with the schema. Raises MetadataError."""
    return parse(Descriptions, (folder / FILE).read_text(), FILE)


def describe_tables(descriptions: Descriptions, schema: Schema) -> dict[str, dict[str, Any]]:
    """Return the metadata of all tables, with texts without Markdown.

    Raises MetadataError if schema and descriptions differ."""
    _check_names(descriptions, schema)
    described = {
        name: about.model_dump(exclude_none=True)
        | {
            "description": _as_plain(about.description),
            "columns": {
                column: _as_plain(descriptions.describe_column(name, column))
                for column in schema[name]
            },
        }
        for name, about in descriptions.tables.items()
    }
    return described | {name: {"hidden": True} for name in descriptions.database.hidden}


def _as_plain(markdown: str) -> str:
    return markdown.replace("`", "")


def _check_names(descriptions: Descriptions, schema: Schema) -> None:
    known = {*descriptions.tables, *descriptions.database.hidden}
    for name in sorted(set(schema) - known):
        raise MetadataError(
            f"{FILE}: the table {name} has no description: add [tables.{name}],"
            " or its name to hidden"
        )
    for name in sorted(known - set(schema)):
        raise MetadataError(f"{FILE}: there is no table {name}: remove it")
    for table, about in descriptions.tables.items():
        for column in about.list_named_columns():
            if column not in schema[table]:
                raise MetadataError(f"{FILE}: there is no column {table}.{column}: remove it")
    all_columns = {column for table in descriptions.tables for column in schema[table]}
    for column in descriptions.columns:
        if column not in all_columns:
            raise MetadataError(f"{FILE}: there is no column {column} in any table: remove it")
