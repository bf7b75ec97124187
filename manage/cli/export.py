"""Export of entries as JSON lines, CSV, Parquet or one JSON document, one page in memory at a time."""

import base64
import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO

from manage.cli.console import BackendError
from runtime import clock
from runtime.csv_cells import neutralize
from store.traces.reader import BODIES, EntryFilter, Row, TraceReader

type Format = Literal["jsonl", "csv", "parquet", "json"]


def check_can_write(kind: Format) -> None:
    """Raise BackendError, with the command that installs it, where a format needs what is not installed."""
    if kind == "parquet" and find_spec("pyarrow") is None:
        raise BackendError(
            "Parquet needs pyarrow, which is not installed. This command installs it:"
            f" {sys.executable} -m pip install pyarrow"
        )


def write_entries(
    output: BinaryIO,
    paths: Sequence[Path],
    entry_filter: EntryFilter,
    kind: Format,
    *,
    with_bodies: bool,
    raw_csv: bool = False,
) -> int:
    """Write one organisation after the other, each in order of arrival. Returns how many entries.

    ``raw_csv``: leave cells of CSV as they are that a spreadsheet would execute.
    Raises sqlite3.Error, OSError and BackendError."""
    with ExitStack() as stack:
        readers = {path.parent.name: stack.enter_context(TraceReader(path)) for path in paths}
        entries = _Counted(_iter_entries(readers, entry_filter, with_bodies=with_bodies))
        columns = _columns(readers.values(), with_bodies=with_bodies)
        if kind == "parquet":
            _write_parquet(output, entries, columns)
            return entries.count
        text = stack.enter_context(_as_text(output))
        if kind == "csv":
            _write_csv(text, entries, list(columns), raw=raw_csv)
        elif kind == "json":
            _write_document(text, entries)
        else:
            _write_lines(text, entries)
        return entries.count


@contextmanager
def _as_text(output: BinaryIO) -> Iterator[TextIO]:
    """Yield a stream in UTF-8, with line ends unchanged, over one that somebody else closes."""
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


def make_item(organization_id: str, row: Row) -> Row:
    """Return an entry as it is exported: the columns of ``usage_log``, and the organisation."""
    return {"organization_id": organization_id} | row


def _iter_entries(
    readers: Mapping[str, TraceReader], entry_filter: EntryFilter, *, with_bodies: bool
) -> Iterator[Row]:
    for organization_id, reader in readers.items():
        if not reader.is_ready:
            continue
        for row in reader.iter_entries(entry_filter):
            item = make_item(organization_id, row)
            if with_bodies:
                bodies = reader.read_bodies(row["id"])
                if bodies is None:
                    continue  # removed by retention since its page was read
                item |= {name: _as_json(bodies[name]) for name in BODIES}
            yield item


def _as_json(body: str | bytes | None) -> Any:
    """Return a body for JSON. A body that is not text is written as Datasette writes it."""
    if isinstance(body, bytes):
        return {"$base64": True, "encoded": base64.b64encode(body).decode()}
    return body


def _columns(readers: Iterable[TraceReader], *, with_bodies: bool) -> dict[str, str]:
    """Return the columns of all databases together, with the types that their schema declares: a database
    of an older version may lack some columns."""
    columns = {"organization_id": "text"}
    for reader in readers:
        columns |= {name: declared for name, declared in reader.types.items() if name not in BODIES}
    return columns | dict.fromkeys(BODIES if with_bodies else (), "text")


def _write_parquet(output: BinaryIO, rows: Iterable[Row], columns: Mapping[str, str]) -> None:
    # Loaded where it is asked for: it is large, and an extra.
    parquet = import_module("store.traces.parquet")
    writer = parquet.ParquetWriter(output, [parquet.Column(*each) for each in columns.items()])
    try:
        for row in rows:
            writer.write([row.get(name) for name in columns])
        writer.close()
    except parquet.ConversionError as error:
        raise BackendError(f"{error}; export to another format") from error


def _write_csv(output: TextIO, rows: Iterable[Row], columns: Sequence[str], *, raw: bool) -> None:
    writer = csv.DictWriter(output, columns)
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
    """Write the entries as one document, with the same fields as a list of the API."""
    output.write('{"items": [')
    separator = ""
    for row in rows:
        output.write(separator + json.dumps(row, ensure_ascii=False))
        separator = ", "
    output.write('], "nextCursor": null, "hasMore": false}\n')


@contextmanager
def open_private(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that only its owner can read: bodies contain what people wrote.

    It gets its name once it is complete, so that nobody takes a part for the whole. Raises OSError.
    """
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
