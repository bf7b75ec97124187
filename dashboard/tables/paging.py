"""Pagination of tables, forwards and backwards, in an order in which every row has one place.

Datasette 0.65 sorts a page by one column alone and its next page by that and the key, ascending; so rows
that are equal in that column are shown twice or never. Its condition also has an ``or``, for which
SQLite reads every row before the page. Here each page is sorted by the column and then the key, in one
direction, and begins after a row that ``_next`` names: its value, then its key, as in Datasette. A ``!``
in front stands for the page before that row. Views without a key are paged by offset, as in Datasette.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.tables.lean_datasette import (
    BadRequest,
    Database,
    Datasette,
    QueryInterrupted,
    Request,
    Results,
    escape_sqlite,
    tilde_decode,
    tilde_encode,
)

BACKWARDS = "!"
_NULL = "$null"
_BAD_PLACE = "_next has to be what the link to another page had; open the first page again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of a table. ``keys`` are the sort column, if any, and the primary key; ``nullable`` is
    about the first of these."""

    keys: tuple[str, ...]
    is_sorted: bool
    descending: bool
    nullable: bool  # the first of the keys

    @property
    def as_datasette_writes_it(self) -> str:
        if not self.is_sorted:
            return ", ".join(map(escape_sqlite, self.keys))
        return f"{escape_sqlite(self.keys[0])}{' desc' if self.descending else ''}"

    def write(self, *, backwards: bool) -> str:
        direction = " desc" if self.descending != backwards else ""
        return ", ".join(f"{escape_sqlite(key)}{direction}" for key in self.keys)


@dataclass(frozen=True, slots=True)
class Place:
    """A row, by its values of the order's keys. A page begins after it, or with ``backwards`` ends before
    it."""

    values: tuple[str | None, ...]
    backwards: bool = False


def parse_place(text: str, order: Order, pks: Sequence[str]) -> Place:
    """Parse the value of ``_next``. ``pks`` are the columns of the primary key. Raises BadRequest."""
    backwards = text.startswith(BACKWARDS)
    parts = text.removeprefix(BACKWARDS).split(",")
    if len(parts) != len(pks) + order.is_sorted:
        raise BadRequest(_BAD_PLACE)
    values = [tilde_decode(part) for part in parts]
    if not order.is_sorted:
        return Place(tuple(values), backwards)
    value = None if parts[0] == _NULL else values[0]
    others = [each for pk, each in zip(pks, values[1:], strict=True) if pk != order.keys[0]]
    return Place((value, *others), backwards)


def format_place(sort_value: object, pk_values: Sequence[object], order: Order) -> str:
    """Return the value of ``_next`` for the page after the row with these values of sort column and key."""
    parts = [tilde_encode(str(each)) for each in pk_values]
    if order.is_sorted:
        parts.insert(0, _NULL if sort_value is None else tilde_encode(str(sort_value)))
    return ",".join(parts)


def write_condition(order: Order, place: Place) -> tuple[str, dict[str, object]]:
    """Return the SQL condition for the rows after a place, and its parameters. NULL sorts first."""
    smaller = order.descending != place.backwards
    sign = "<" if smaller else ">"
    names = [f"place_{number}" for number in range(len(order.keys))]
    first = escape_sqlite(order.keys[0])
    if place.values[0] is None and order.is_sorted:
        rest = _compare(order.keys[1:], sign, names[1:]) if order.keys[1:] else "false"
        among_nulls = f"({first} is null and {rest})"
        condition = among_nulls if smaller else f"({first} is not null or {among_nulls})"
        return condition, dict(zip(names[1:], place.values[1:], strict=True))
    condition = _compare(order.keys, sign, names)
    if smaller and order.nullable:
        condition = f"({condition} or {first} is null)"
    return condition, dict(zip(names, place.values, strict=True))


def _compare(keys: Sequence[str], sign: str, names: Sequence[str]) -> str:
    left, right = ", ".join(map(escape_sqlite, keys)), ", ".join(f":{name}" for name in names)
    return f"({left}) {sign} ({right})"


class PagedFile:
    """A stand-in for the database while Datasette makes a page of one table: it rewrites the query for the
    rows, and forwards everything else. After the rows have been read, ``conditions`` and ``values`` are
    the SQL condition and parameters of the whole list."""

    def __init__(
        self, file: Database, table: str, pks: Sequence[str], order: Order, place: Place | None
    ) -> None:
        self._file = file
        self.table = table
        self._pks = pks
        self._order = order
        self._place = place
        self.next: str | None = None
        self.previous: str | None = None
        self.query: dict[str, object] | None = None
        self.conditions, self.values = "", dict[str, object]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    async def execute(
        self, sql: str, params: Any = None, truncate: bool = False, **options: Any
    ) -> Results:
        size = options.get("page_size") or self._file.ds.page_size
        ending = f"order by {self._order.as_datasette_writes_it} limit {size + 1}"
        if self.query is not None or not truncate or not sql.endswith(ending):
            return await self._file.execute(sql, params, truncate=truncate, **options)
        head = sql.removesuffix(ending)
        results = await self._fetch_page(head, size, params, self._place, options)
        if self._place is not None and self._place.backwards and len(results.rows) <= size:
            self._place = None  # there is less than a page before it, so the first is meant
            results = await self._fetch_page(head, size, params, None, options)
        rows = await self._trim(list(results.rows), size)
        return Results(rows, results.truncated, results.description)

    async def _fetch_page(
        self, head: str, size: int, params: Any, place: Place | None, options: dict[str, Any]
    ) -> Results:
        table = escape_sqlite(self.table)
        columns, _, rest = head.partition(f" from {table} ")
        conditions, values = [], dict(params or {})
        if condition := rest.strip().removeprefix("where "):
            conditions.append(f"({condition}\n)")
            self.conditions, self.values = conditions[0], values.copy()
        if place is not None:
            after, more = write_condition(self._order, place)
            conditions.append(after)
            values |= more
        where = f"where {' and '.join(conditions)} " if conditions else ""
        order = self._order.write(backwards=place is not None and place.backwards)
        sql = f"{columns} from {table} {where}order by {order} limit {size + 1}"
        self.query = {"sql": sql, "params": values}
        return await self._file.execute(sql, values, truncate=True, **options)

    async def _trim(self, rows: list[Any], size: int) -> list[Any]:
        has_more = len(rows) > size
        rows = rows[:size]
        if not rows:
            return rows
        backwards = self._place is not None and self._place.backwards
        if backwards:
            rows.reverse()
        if has_more or backwards:
            self.next = await self._name(rows[-1])
        if self._place is not None:
            self.previous = BACKWARDS + await self._name(rows[0])
        return rows

    async def count_nulls(self, column: str, limit_ms: int) -> int | None:
        """Return how many rows of the whole list are null in ``column``, None if counting takes too long."""
        sql = (
            f"select count(*) from {escape_sqlite(self.table)}"  # noqa: S608 - its own names
            f" where {f'{self.conditions} and ' if self.conditions else ''}{escape_sqlite(column)} is null"
        )
        try:
            found = await self._file.execute(sql, self.values, custom_time_limit=limit_ms)
        except QueryInterrupted:
            return None
        return int(found.rows[0][0])

    async def _name(self, row: Any) -> str:
        keys = [row[pk] for pk in self._pks]
        if not self._order.is_sorted:
            return format_place(None, keys, self._order)
        column = self._order.keys[0]
        if column in row.keys():  # noqa: SIM118 - a row gives its values
            return format_place(row[column], keys, self._order)
        wanted = " and ".join(f"{escape_sqlite(pk)} = :pk_{n}" for n, pk in enumerate(self._pks))
        found = await self._file.execute(
            f"select {escape_sqlite(column)} from {escape_sqlite(self.table)} where {wanted}",  # noqa: S608
            {f"pk_{number}": value for number, value in enumerate(keys)},
        )
        value = found.rows[0][0] if found.rows else None
        return format_place(value, keys, self._order)


class OnePage:
    """A stand-in for the Datasette of one request, whose database is a PagedFile."""

    def __init__(self, datasette: Datasette, file: PagedFile) -> None:
        self._datasette = datasette
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._datasette, name)

    def get_database(self, name: str | None = None, route: str | None = None) -> PagedFile:
        return self._file


async def find_order(
    datasette: Datasette, request: Request, table: str, pks: Sequence[str]
) -> Order:
    """Return the order in which Datasette lists this table for a request."""
    metadata = datasette.table_metadata("traces", table)
    sort, sort_desc = request.args.get("_sort"), request.args.get("_sort_desc")
    if not sort and not sort_desc:
        sort, sort_desc = metadata.get("sort"), metadata.get("sort_desc")
    column = sort or sort_desc
    if column is None:
        return Order(keys=tuple(pks), is_sorted=False, descending=False, nullable=False)
    # The columns of the view are those of the table.
    source = "usage" if table == "usage_log" else table
    details = await datasette.get_database("traces").table_column_details(source)
    never_null = {each.name for each in details if each.notnull or each.is_pk}
    return Order(
        keys=(column, *(pk for pk in pks if pk != column)),
        is_sorted=True,
        descending=not sort,
        nullable=column not in never_null,
    )
