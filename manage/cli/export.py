"""Export of entries, or managed sessions and dreams, as JSON lines, CSV, Parquet or a JSON document.

At most one page of a list is in memory."""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO

from manage.api.operation import Operation
from manage.cli.backend import ENDLESS, Backend
from manage.cli.console import BackendError
from runtime import clock
from runtime.csv_cells import neutralize
from runtime.installing import explain_missing
from store.traces.calls.reader import BODIES, Row

MAX_ROWS = 1000  # of a page, which ends sooner where rows are large

type Format = Literal["jsonl", "csv", "parquet", "json"]


def check_can_write(kind: Format) -> None:
    """Raise BackendError if a library for a format is not installed, with the command to install it."""
    if kind == "parquet" and find_spec("pyarrow") is None:
        raise BackendError(explain_missing("Parquet", "parquet"))


def write_rows(
    output: BinaryIO,
    operation: Operation[Any, Any],
    backends: Sequence[Backend],
    kind: Format,
    *,
    raw_csv: bool = False,
    **only: object,
) -> int:
    """Write the rows that ``operation`` lists, one backend after the other. Return the number of rows.

    ``only``: fields of the request. ``raw_csv``: do not neutralise CSV cells that a spreadsheet would
    execute. Raises sqlite3.Error, OSError, ControlError and BackendError."""
    return _write(output, _List(operation, backends, only), kind, raw_csv=raw_csv)


@dataclass(frozen=True, slots=True)
class _List:
    """A list operation over several backends. ``only``: fields of its request."""

    operation: Operation[Any, Any]
    backends: Sequence[Backend]
    only: Mapping[str, object]

    def iter_rows(self) -> Iterator[Row]:
        """Yield the rows of all backends, with one page at a time in memory."""
        for backend in self.backends:
            page = backend.call(self.operation, limit=MAX_ROWS, **self.only)
            yield from map(dict, page.items)
            while (cursor := page.next_cursor) is not None:
                page = backend.call(self.operation, cursor=cursor, limit=MAX_ROWS, **self.only)
                if page.next_cursor == cursor:
                    raise BackendError(ENDLESS)
                yield from map(dict, page.items)

    def find_columns(self) -> dict[str, str]:
        """Return the columns of all databases together, by name, with the type that the schema declares.

        They are collected from all databases, since one of an older version may lack some."""
        columns: dict[str, str] = {}
        # Without bodies: the first call may have large ones.
        only = {**self.only, "bodies": "no"} if "bodies" in self.only else self.only
        for backend in self.backends:
            columns |= backend.call(self.operation, limit=1, **only).columns
        return columns | (dict.fromkeys(BODIES, "text") if self.only.get("bodies") == "yes" else {})


def _write(output: BinaryIO, rows: _List, kind: Format, *, raw_csv: bool) -> int:
    entries, columns = _Counted(rows.iter_rows()), rows.find_columns()
    if kind == "parquet":
        _write_parquet(output, entries, columns)
        return entries.count
    with _as_text(output) as text:
        if kind == "csv":
            _write_csv(text, entries, list(columns), raw=raw_csv)
        elif kind == "json":
            _write_document(text, entries)
        else:
            _write_lines(text, entries)
    return entries.count


@contextmanager
def _as_text(output: BinaryIO) -> Iterator[TextIO]:
    """Yield a text stream over ``output``: UTF-8, line ends unchanged. ``output`` is left open."""
    stream = io.TextIOWrapper(output, encoding="utf-8", newline="")
    try:
        yield stream
    finally:
        with suppress(ValueError):
            stream.detach()


class _Counted:
    """An iterable of rows that counts them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.count += 1
            yield row


def _write_parquet(output: BinaryIO, rows: Iterable[Row], columns: Mapping[str, str]) -> None:
    # Loaded where it is asked for: it is large, and an extra.
    parquet = import_module("store.traces.calls.parquet")
    writer = parquet.ParquetWriter(output, [parquet.Column(*each) for each in columns.items()])
    try:
        for row in rows:
            writer.write([row.get(name) for name in columns])
        writer.close()
    except parquet.ConversionError as error:
        raise BackendError(f"{error}; export to another format") from error


def _write_csv(output: TextIO, rows: Iterable[Row], columns: Sequence[str], *, raw: bool) -> None:
    writer = csv.DictWriter(output, columns, extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        cells = {
            name: json.dumps(value) if isinstance(value, dict) else value
            for name, value in row.items()
        }
        writer.writerow(cells if raw else {name: neutralize(cell) for name, cell in cells.items()})


def _write_lines(output: TextIO, rows: Iterable[Row]) -> None:
    for row in rows:
        output.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_document(output: TextIO, rows: Iterable[Row]) -> None:
    """Write the rows as one JSON document, with the same fields as a list of the API."""
    output.write('{"items": [')
    separator = ""
    for row in rows:
        output.write(separator + json.dumps(row, ensure_ascii=False))
        separator = ", "
    output.write('], "nextCursor": null, "hasMore": false}\n')


@contextmanager
def open_private(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that only its owner can read: bodies contain what people wrote.

    It gets its name once it is complete, so that no incomplete file has that name. Raises OSError."""
    if path.exists() and not path.is_file():  # a pipe or a device has no name to give
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(f".{path.name}.{clock.new_id()}")
    fd = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:  # noqa: PTH123 - it is open already
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
