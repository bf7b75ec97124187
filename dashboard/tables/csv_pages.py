"""CSV pages in which no cell is a formula (see ``runtime.csv_cells``)."""

from collections.abc import Sequence
from typing import Any

from runtime.csv_cells import neutralize


class Row(dict[str, Any]):
    """A row as Datasette reads it: its values in order, and each by the name of its column."""

    def __init__(self, columns: Sequence[str], values: Sequence[Any]) -> None:
        super().__init__(zip(columns, values, strict=True))
        self._values = values

    def __iter__(self) -> Any:
        return iter(self._values)


def neutralize_page(columns: Sequence[str], rows: Sequence[Any]) -> dict[str, Any]:
    """Return the columns and rows with cells in front of which an apostrophe stands where needed."""
    return {
        "columns": [neutralize(column) for column in columns],
        "rows": [_neutralize_row(columns, row) for row in rows],
    }


def _neutralize_row(columns: Sequence[str], row: Any) -> Any:
    """Return the row itself where it is harmless, as nearly every one is."""
    values = list(row)
    harmless = [_neutralize_value(value) for value in values]
    return row if harmless == values else Row(columns, harmless)


def _neutralize_value(value: Any) -> Any:
    if isinstance(value, dict):  # a key, and the label of the row it leads to
        return {name: neutralize(each) for name, each in value.items()}
    return neutralize(value)
