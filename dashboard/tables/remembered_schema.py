"""Datasette's queries on the schema of a database, answered from memory while it is unchanged.

There are some twenty for the page of a table. Each is a query of its own in another thread, and together
they take longer than reading the rows.
"""

from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any

from dashboard.tables.lean_datasette import Database

_MAX_REMEMBERED = 500  # a visitor chooses the names of tables


def _remembered(find: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(find)
    async def remember(database: "RememberedSchema", *arguments: object) -> Any:
        await database.forget_old_schema()
        key, found = (find.__name__, *arguments), database.found
        if key not in found:
            if len(found) >= _MAX_REMEMBERED:
                found.clear()
            found[key] = await find(database, *arguments)
        return copy(found[key])

    return remember


class RememberedSchema(Database):  # type: ignore[misc]
    """A database whose schema is read once. Call ``begin_request`` before each request."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.found: dict[tuple[object, ...], Any] = {}
        self._version: int | None = None
        self._is_compared = False

    def begin_request(self) -> None:
        """Have the version of the schema compared at the next look-up."""
        self._is_compared = False

    async def forget_old_schema(self) -> None:
        """Forget the remembered schema if it has changed. It is compared once in a request."""
        if self._is_compared:
            return
        version = (await self.execute("pragma schema_version")).single_value()
        if version != self._version:
            self.found.clear()
            self._version = version
        self._is_compared = True

    foreign_keys_for_table = _remembered(Database.foreign_keys_for_table)
    fts_table = _remembered(Database.fts_table)
    get_all_foreign_keys = _remembered(Database.get_all_foreign_keys)
    get_table_definition = _remembered(Database.get_table_definition)
    hidden_table_names = _remembered(Database.hidden_table_names)
    label_column_for_table = _remembered(Database.label_column_for_table)
    primary_keys = _remembered(Database.primary_keys)
    table_column_details = _remembered(Database.table_column_details)
    table_columns = _remembered(Database.table_columns)
    table_exists = _remembered(Database.table_exists)
    table_names = _remembered(Database.table_names)
    view_names = _remembered(Database.view_names)
