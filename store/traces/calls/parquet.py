"""Rows of trace databases as Apache Parquet.

This needs pyarrow, the extra ``parquet``, so import this module only if Parquet is requested."""

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow.parquet import ParquetWriter as ArrowWriter

from runtime import clock

# Rows become columns a few at a time, and these a row group when there are enough of them: so neither
# long nor wide tables, nor those with bodies, take more memory than this.
_BATCH_ROWS, _BATCH_CHARACTERS = 2_000, 4 << 20
_GROUP_ROWS, _GROUP_BYTES = 100_000, 32 << 20
# Costs are sums of products of prices and counts, which are doubles in SQLite: a double has at most 17
# significant digits, so one above a cent has no more places than this.
_PLACES = 18
_ONE = Decimal(1).scaleb(-_PLACES)


class ConversionError(Exception):
    """A value does not have the type of its column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column with the type that the schema declares, "" for a computed column."""

    name: str
    declared: str


class ParquetWriter:
    """A Parquet file that is written row by row, in bounded memory, to a stream that need not be seekable.

    Columns without a declared type get the type of their values in the first batch."""

    def __init__(self, output: BinaryIO, columns: Sequence[Column]) -> None:
        self._output = output
        self._columns = columns
        self._types: list[_Type] = []
        self._writer: Any = None
        self._rows: list[Sequence[Any]] = []
        self._characters = 0
        self._batches: list[Any] = []

    def write(self, row: Sequence[Any]) -> None:
        """Add a row, with its values in the order of the columns. Raises ConversionError, OSError."""
        self._rows.append(row)
        self._characters += sum(len(value) for value in row if isinstance(value, str))
        if len(self._rows) >= _BATCH_ROWS or self._characters >= _BATCH_CHARACTERS:
            self._make_batch()

    def close(self) -> None:
        """Write the remaining rows and the end of the file. Raises ConversionError, OSError."""
        self._make_batch()
        self._write_group()
        self._writer.close()

    def _make_batch(self) -> None:
        cells = list(zip(*self._rows, strict=True)) or [()] * len(self._columns)
        self._rows, self._characters = [], 0
        if self._writer is None:
            self._types = [
                _choose_type(column, values)
                for column, values in zip(self._columns, cells, strict=True)
            ]
            fields = [
                (column.name, chosen.arrow)
                for column, chosen in zip(self._columns, self._types, strict=True)
            ]
            self._writer = ArrowWriter(self._output, pa.schema(fields), compression="zstd")
        arrays = [
            _make_array(column, chosen, values)
            for column, chosen, values in zip(self._columns, self._types, cells, strict=True)
        ]
        self._batches.append(pa.record_batch(arrays, schema=self._writer.schema))
        if (
            sum(batch.num_rows for batch in self._batches) >= _GROUP_ROWS
            or sum(batch.nbytes for batch in self._batches) >= _GROUP_BYTES
        ):
            self._write_group()

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._batches, self._writer.schema)
        self._batches = []
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)


@dataclass(frozen=True, slots=True)
class _Type:
    """A type of Arrow, and the function that converts a value of SQLite to it."""

    arrow: Any
    convert: Callable[[Any], Any]


def _as_integer(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not an integer")
    return value


def _as_number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _as_decimal(value: Any) -> Decimal:
    """Return the shortest decimal with the value of a double, which is the decimal that was stored."""
    number = Decimal(repr(_as_number(value)))
    exponent = number.as_tuple().exponent
    return number.quantize(_ONE) if isinstance(exponent, int) and exponent < -_PLACES else number


def _as_instant(value: Any) -> datetime:
    return clock.parse_instant(value)


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["encoded"])
    return value.encode() if isinstance(value, str) else bytes(value)


def _as_text(value: Any) -> str:
    """Return a text unchanged, and any other value (such as a body that is not UTF-8) as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


_INTEGER = _Type(pa.int64(), _as_integer)
_NUMBER = _Type(pa.float64(), _as_number)
_DECIMAL = _Type(pa.decimal128(38, _PLACES), _as_decimal)
_INSTANT = _Type(pa.timestamp("us", "UTC"), _as_instant)
_BYTES = _Type(pa.binary(), _as_bytes)
_TEXT = _Type(pa.string(), _as_text)


def _choose_type(column: Column, values: Iterable[Any]) -> _Type:
    declared = column.declared.lower() or _declare(values)
    if declared == "real":
        return _DECIMAL if _is_money(column.name) else _NUMBER
    if declared == "text":
        return _INSTANT if column.name.endswith("_at") and _are_instants(values) else _TEXT
    return {"integer": _INTEGER, "blob": _BYTES}.get(declared, _TEXT)


def _is_money(name: str) -> bool:
    return name.endswith(("cents", "_usd"))


def _declare(values: Iterable[Any]) -> str:
    """Return the declared type that fits a column with these values."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int}:
        return "integer"
    return "real" if kinds and kinds <= {int, float} else "text"


def _are_instants(values: Iterable[Any]) -> bool:
    """Return whether all values are instants.

    Names of columns do not say so: in a column named like one, upstream may send other text."""
    try:
        for value in values:
            if value is not None:
                _as_instant(value)
    except (ValueError, TypeError):
        return False
    return True


def _make_array(column: Column, chosen: _Type, values: Iterable[Any]) -> Any:
    try:
        converted = [None if value is None else chosen.convert(value) for value in values]
        return pa.array(converted, chosen.arrow)
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as error:
        raise ConversionError(f"column {column.name}: {error}") from error
