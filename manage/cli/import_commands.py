"""``taximeter import``: calls of an export, into the traces of this machine.

Where a recorder runs, batches of lines are handed over to it; otherwise the command stores them in its
place. Either way a batch is one transaction, and calls that are there already are left as they are.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import click
import orjson

from manage.cli.backend_choice import find_caller
from manage.cli.console import (
    BackendError,
    data_dir_option,
    explained,
    json_option,
    open_control,
    print_json,
    read_settings,
    tell_of_other_nodes,
    user_option,
)
from manage.cli.import_batches import BatchStore
from metering.formats import format_calls, format_count
from runtime.settings import Settings
from store import call_imports
from store.control.database import ControlDatabase
from store.copies import find_copies
from store.traces.calls.exported_call import ExportedCall, LineError, parse_line
from store.traces.paths import trace_path

BATCH_CALLS = 200
BATCH_BYTES = 4 << 20
PROGRESS_S = 0.2


@click.command("import")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--organization", metavar="ID",
    help="Import the calls of this organisation alone; needed if the file has several.",
)  # fmt: skip
@user_option
@data_dir_option
@json_option
def import_(
    source: Path, organization: str | None, user: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Import calls that `export --bodies` has written as JSON lines.

    They become calls of your organisation on this machine, as they were recorded: with bodies, costs
    and sessions, and they count in all sums. A call that is there already is left as it is, so an
    import that was interrupted is finished by running it again. FILE is - for standard input. The
    service may run meanwhile. Of several nodes, run it on each that keeps calls.

    \b
    Examples:
      taximeter export --bodies -o calls.jsonl
      taximeter import calls.jsonl --data-dir /srv/taximeter
      ssh old taximeter export --bodies | taximeter import -
    """
    with explained(), ExitStack() as stack:
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            target = _Target.find(settings, control, user)
        tell_of_other_nodes(settings)
        copies = find_copies(settings.data_dir)
        if copies is not None and copies.is_elsewhere(target.organization_id):
            raise BackendError("this node does not keep the calls of your organisation")
        stream = stack.enter_context(_open(source))
        batches = BatchStore(settings.data_dir, target.organization_id)
        importing = _Import(target, stack.enter_context(closing(batches)), organization)
        importing.run(stream)
    if as_json:
        print_json({"imported": importing.imported, "known": importing.known})
    else:
        click.echo(f"Imported {format_calls(importing.imported)}{importing.describe_known()}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The organisation that calls are imported into, with the ids of its endpoints by their slugs."""

    path: Path
    organization_id: str
    endpoints: dict[str, str]

    @classmethod
    def find(cls, settings: Settings, control: ControlDatabase, user: str | None) -> "_Target":
        organization_id = find_caller(settings, control, user).organization_id
        return cls(
            path=trace_path(settings.data_dir, organization_id),
            organization_id=organization_id,
            endpoints={each.slug: each.id for each in control.list_endpoints(organization_id)},
        )


@dataclass(slots=True)
class _Import:
    """An import as far as it is. ``known`` calls were there already."""

    target: _Target
    batches: BatchStore
    only: str | None
    imported: int = 0
    known: int = 0
    _batch: dict[str, bytes] = field(default_factory=dict)  # lines by entry id
    _bytes: int = 0
    _source: str | None = None  # the organisation that the calls are of

    def run(self, stream: BinaryIO) -> None:
        """Import the calls of a stream. What comes before a line that is wrong is imported.

        Raises BackendError, sqlite3.Error, OSError."""
        with _Progress(stream) as progress:
            for number, line in enumerate(stream, 1):
                try:
                    self._add(line)
                except LineError as error:
                    self._flush()
                    raise BackendError(self._explain(number, error)) from error
                progress.show(len(line), self.imported + self.known)
            self._flush()

    def describe_known(self) -> str:
        """Return what is said of calls that were there already."""
        were = "was" if self.known == 1 else "were"
        return f"; {format_count(self.known)} {were} there already" if self.known else ""

    def _add(self, line: bytes) -> None:
        if not line.strip():
            return
        call = parse_line(line)
        if self.only is not None and call.organization_id != self.only:
            return
        self._source = self._source or call.organization_id
        if call.organization_id != self._source:
            raise LineError(
                f"it is of another organisation ({call.organization_id}) than the lines before"
                f" ({self._source}): choose one with --organization"
            )
        self._batch[call.entry.entry_id] = self._translate(line, call)
        self._bytes += len(line)
        if len(self._batch) >= BATCH_CALLS or self._bytes >= BATCH_BYTES:
            self._flush()

    def _translate(self, line: bytes, call: ExportedCall) -> bytes:
        """Return the line with the endpoint that has the call's slug here, if there is one."""
        entry = call.entry
        here = self.target.endpoints.get(entry.slug, entry.proxy_endpoint_id)
        if here == entry.proxy_endpoint_id:
            return line.strip()
        return orjson.dumps(orjson.loads(line) | {"proxy_endpoint_id": here})

    def _flush(self) -> None:
        """Store what was read and is not there yet."""
        known = call_imports.find_known(self.target.path, list(self._batch))
        new = [line for entry_id, line in self._batch.items() if entry_id not in known]
        if new:
            self.batches.store(new)
        self.imported += len(new)
        self.known += len(known)
        self._batch.clear()
        self._bytes = 0

    def _explain(self, number: int, error: LineError) -> str:
        done = format_calls(self.imported)
        return (
            f"line {format_count(number)} cannot be imported: {error}. Of the lines before it {done}"
            f" {'was' if self.imported == 1 else 'were'} imported{self.describe_known()}; mend the line or"
            " remove it, and run this again"
        )


class _Progress:
    """A line on a terminal that says how far an import is."""

    def __init__(self, stream: BinaryIO) -> None:
        self._size = 0
        with suppress(OSError, ValueError):
            self._size = os.fstat(stream.fileno()).st_size
        self._is_shown = sys.stderr.isatty()
        self._read = 0
        self._next_s = 0.0

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def show(self, size: int, calls: int) -> None:
        """Note that so many more bytes are read, and say it now and then."""
        self._read += size
        if not self._is_shown or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + PROGRESS_S
        share = f", {self._read / self._size:.0%}" if self._size else ""
        click.echo(f"\r\x1b[K{format_calls(calls)}{share}", nl=False, err=True)


@contextmanager
def _open(source: Path) -> Iterator[BinaryIO]:
    if str(source) == "-":
        yield sys.stdin.buffer
    else:
        with source.open("rb") as file:
            yield file
