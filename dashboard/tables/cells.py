"""Cells of tables and query results, as pages display them.

JSON and CSV have the stored values. A page shows dollars instead of cents, grouped digits, times without
their letters, the two ends of long identifiers, and links to calls. If a value is shortened or
converted, its tooltip has the stored value.
"""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from urllib.parse import quote

from markupsafe import Markup, escape

from dashboard.addresses import call_address, entry_address, session_address
from dashboard.formats import finalize
from dashboard.tables.lean_datasette import to_css_class
from dashboard.tables.rows import Cell
from metering.formats import format_cents, format_count, format_dollars
from runtime.safe_text import reveal

CALLS = "/traces/usage"
_CALL_TABLES = {"usage", "usage_log"}
_READS_CALLS = re.compile(r"\busage(?:_log)?\b", re.IGNORECASE)
_CALL_IDS = {"id", "last_id"}  # of calls, in a query that reads the table of calls
# Columns of cents with their headings: cents are displayed as dollars.
_CENTS = {"cost_cents": "cost_usd", "cents": "cost_usd", "estimated_cents": "estimated_usd"}
_SHARED = {
    "agent_id", "parent_agent_id", "run_id", "proxy_endpoint_id", "credential_hmac",
}  # fmt: skip
_PLAIN_NUMBERS = {"id", "line", "pass_index", "piece", "status_code", "year"}
# Shown with as many digits in each row, so that a column aligns.
_DECIMALS = {"_ms": 0, "_percent": 1, "_per_s": 1, "_ratio": 3, "_share": 3}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z", re.ASCII)
_HOUR = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)", re.ASCII)
_IDENTIFIER = re.compile(r"[0-9a-f-]{24,}", re.ASCII)
_MAX_SHOWN = 60  # of a name that somebody chose
_MAX_UNCUT, _MAX_UNCUT_LINES = 100, 2  # a longer value may not fit its cell
_STOP = ' tabindex="0"'


def column_label(column: str) -> Markup:
    """Return the heading of a column, with places for line breaks. Columns of cents get a heading for
    dollars."""
    words = _wrap(reveal(_CENTS.get(column, column)))
    if column in _CENTS:
        return Markup('<span title="{}, in US cents">{}</span>').format(reveal(column), words)
    return words


def _wrap(name: str) -> Markup:
    """Return a name with one place for a line break, between the words nearest to its middle."""
    places = [place + 1 for place, letter in enumerate(name) if letter == "_"]
    if not places:
        return escape(name)
    place = min(places, key=lambda each: abs(2 * each - len(name)))
    return Markup("{}<wbr>{}").format(name[:place], name[place:])


def table_cells(row: Iterable[Cell], table: str) -> Markup:
    """Return the cells of a row of a table, as ``<td>`` elements."""
    are_calls = table in _CALL_TABLES
    return _join(
        _cell(
            cell.column,
            cell.kind,
            render_value(cell.column, cell.raw, cell.value, are_calls=are_calls),
        )
        for cell in row
    )


def query_cells(
    columns: Sequence[str], shown: Sequence[object], values: Sequence[object], sql: str
) -> Markup:
    """Return the cells of a row of a query's result, as ``<td>`` elements."""
    are_calls = _READS_CALLS.search(sql) is not None
    return _join(
        _cell(
            column,
            "int" if isinstance(value, int | float) else "str",
            render_value(column, value, text, are_calls=are_calls),
        )
        for column, text, value in zip(columns, shown, values, strict=True)
    )


def render_value(column: str, value: object, shown: object, *, are_calls: bool = False) -> Markup:
    """Return the HTML that a page shows for a stored value.

    ``shown`` is the value as Datasette would show it, which may be shortened. ``are_calls``: columns of
    ids are ids of calls."""
    name = column.lower()
    is_call = name == "usage_id" or (are_calls and name in _CALL_IDS)
    if isinstance(value, int) and is_call:
        return _link(call_address(value), str(value))
    if isinstance(value, int | float):
        return _render_number(name, value)
    if isinstance(shown, Markup):  # a link of Datasette's own, or nothing
        return _trusted(reveal(shown))  # names of characters are no markup
    if isinstance(value, str):
        return _render_text(name, value, str(shown))
    return _plain(str(shown))


def _render_number(name: str, value: float) -> Markup:
    if not isfinite(value):
        return escape(str(value))
    if name in _CENTS:
        return _titled(format_cents(value), f"{value} cents")
    if name == "rate_usd":
        return escape(format_dollars(Decimal(repr(value))))
    if name.endswith("_usd"):
        return _titled(format_cents(value * 100), str(value))
    if name in _PLAIN_NUMBERS or name.endswith("_id"):
        return escape(str(value))
    if (decimals := _find_decimals(name)) is not None:
        return _titled(f"{value:,.{decimals}f}", str(value))
    if isinstance(value, int):
        return escape(format_count(value))
    if abs(value) < 1:
        return escape(f"{value:.6g}")
    return escape(f"{value:,.3f}".rstrip("0").rstrip("."))


def _find_decimals(name: str) -> int | None:
    """Return the number of decimals for all values of a column, None if each value has its own."""
    return next((count for ending, count in _DECIMALS.items() if name.endswith(ending)), None)


def _render_text(name: str, value: str, shown: str) -> Markup:
    if found := _TIME.fullmatch(value):
        return _trusted(f'<time datetime="{value}">{found[1]} {found[2]}</time>')
    if name.endswith("hour") and (found := _HOUR.fullmatch(value)):
        return _trusted(f'<time datetime="{value}:00Z">{found[1]} {found[2]}:00</time>')
    if name == "entry_id":
        return _link(entry_address(value), value)
    if name == "session_id":
        return _link(session_address(value), value)
    if name in _SHARED:
        return _link(f"{CALLS}?{name}={quote(value, safe='')}", value)
    if _IDENTIFIER.fullmatch(value):
        return _titled(_shorten(value), value)
    return _plain(shown)


def _link(address: str, value: str) -> Markup:
    short = _shorten(value)
    title = "" if short == value else f' title="{_plain(value)}"'
    return _trusted(f'<a href="{escape(address)}"{title}>{_plain(short)}</a>')


def _titled(text: str, title: str) -> Markup:
    return _trusted(f'<span title="{_plain(title)}">{_plain(text)}</span>')


def _shorten(value: str) -> str:
    """Return a shortened value: of an identifier both ends, of another long text the beginning.

    Identifiers that sort by time have similar beginnings, so the end is needed."""
    if _IDENTIFIER.fullmatch(value):
        return f"{value[:8]}…{value[-4:]}"
    return value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"


def _plain(text: str) -> Markup:
    return escape(finalize(text))


def _trusted(markup: str) -> Markup:
    """Return a text as markup. Every value in it must be escaped, or digits."""
    return Markup(markup)  # noqa: S704


def _cell(column: str, kind: str, value: Markup) -> Markup:
    make = (
        _opening if len(column) <= _MAX_SHOWN else _opening.__wrapped__
    )  # a query names its columns
    # What may be cut off scrolls, also by keyboard.
    scrolls = len(value) > _MAX_UNCUT or value.count("\n") > _MAX_UNCUT_LINES
    return _trusted(f"{make(column, kind)}<div{_STOP if scrolls else ''}>{value}</div></td>\n")


@lru_cache(maxsize=500)
def _opening(column: str, kind: str) -> str:
    label = _CENTS.get(column, column)
    return (
        f'<td role="cell" class="col-{escape(to_css_class(column))} type-{escape(kind)}"'
        f' data-label="{_plain(label)}">'
    )


def _join(cells: Iterable[Markup]) -> Markup:
    return Markup("").join(cells)


GLOBALS: dict[str, object] = {
    "cell_value": render_value,
    "column_label": column_label,
    "query_cells": query_cells,
    "table_cells": table_cells,
}
