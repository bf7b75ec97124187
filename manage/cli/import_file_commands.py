"""``taximeter import file``: imports exported calls into the traces of this machine.

If a recorder runs, groups of lines are handed over to it; otherwise the command stores them itself. In
both cases a group is one transaction, and calls that are already stored are not changed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import click
import orjson

from manage.cli.console import BackendError
from manage.cli.import_store import ImportStore
from manage.cli.importing import (
    Progress,
    Result,
    Target,
    Writer,
    find_size,
    import_options,
    open_import,
)
from metering.formats import format_count
from store.traces.calls.exported_call import parse_document, parse_row
from store.traces.calls.exported_object import is_object, parse_object_row
from store.traces.calls.line_fields import LineError
from store.traces.calls.reader import Row

OTHER_ORGANIZATION = "other_organization"


@click.command()
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--organization", metavar="ID",
    help="Import the calls of this organisation alone; needed if the file has several.",
)  # fmt: skip
@import_options
def file(
    source: Path, organization: str | None, user: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Import calls that `export --bodies` has written as JSON lines.

    They become calls of your organisation on this machine, as they were recorded: with bodies, costs
    and sessions, and they count in all sums. A call that is there already is left as it is, so an
    import that was interrupted is finished by running it again. Managed sessions and dreams that
    `export --objects` has written as JSON lines are imported too; their newest counts stay. FILE is -
    for standard input. The service may run meanwhile. Of several nodes, run it on each that keeps
    calls.

    \b
    Examples:
      taximeter export --bodies -o calls.jsonl
      taximeter import file calls.jsonl --data-dir /srv/taximeter
      ssh old taximeter export --bodies | taximeter import -
    """
    with open_import(user, data_dir) as (target, store), _open(source) as stream:
        importing = _Import.start(target, store, organization)
        importing.run(stream)
    importing.result.print(as_json=as_json)


@dataclass(slots=True)
class _Import:
    """The state of an import. ``only``: the organisation to import, None for any single one.

    ``source`` is the organisation of the lines so far."""

    target: Target
    writer: Writer
    result: Result
    only: str | None
    source: str | None = field(default=None, init=False)

    @classmethod
    def start(cls, target: Target, store: ImportStore, only: str | None) -> "_Import":
        result = Result()
        return cls(target, Writer(target, store, result), result, only)

    def run(self, stream: BinaryIO) -> None:
        """Import the calls of a stream. An invalid line ends the import; the lines before it are imported.

        Raises BackendError, sqlite3.Error, OSError."""
        with Progress(find_size(stream)) as progress:
            for number, line in enumerate(stream, 1):
                try:
                    self._add(line)
                except LineError as error:
                    self.writer.flush()
                    raise BackendError(self._explain(number, error)) from error
                progress.show(len(line), self.result.new + self.result.already_there)
            self.writer.flush()

    def _add(self, line: bytes) -> None:
        if not line.strip():
            return
        row = parse_document(line)
        if is_object(row):
            found = parse_object_row(row)
            if self._is_wanted(found.organization_id):
                reading = found.reading
                named = self._translate(line, row, reading.slug, reading.proxy_endpoint_id)
                self.writer.add_object(found.found.object_id, reading.read_at, named)
            return
        call = parse_row(row)
        if self._is_wanted(call.organization_id):
            entry = call.entry
            named = self._translate(line, row, entry.slug, entry.proxy_endpoint_id)
            self.writer.add(entry.entry_id, named)

    def _is_wanted(self, organization_id: str) -> bool:
        """Return whether to import a line of this organisation; count it as left out if not.

        Raises LineError for a second organisation if none was chosen."""
        if self.only is not None and organization_id != self.only:
            self.result.left_out[OTHER_ORGANIZATION] += 1
            return False
        self.source = self.source or organization_id
        if organization_id != self.source:
            raise LineError(
                f"it is of another organisation ({organization_id}) than the lines before"
                f" ({self.source}): choose one with --organization"
            )
        return True

    def _translate(self, line: bytes, row: Row, slug: str, endpoint_id: str) -> bytes:
        """Return the line with this machine's id of the endpoint ``slug``, unchanged if there is none."""
        here = self.target.endpoints.get(slug)
        if here is None or here.id == endpoint_id:
            return line.strip()
        return orjson.dumps(row | {"proxy_endpoint_id": here.id})

    def _explain(self, number: int, error: LineError) -> str:
        done = self.result.describe_new()
        return (
            f"line {format_count(number)} cannot be imported: {error}. Of the lines before it {done}"
            f" {'was' if self.result.new == 1 else 'were'} imported{self.result.describe_others()};"
            " mend the line or remove it, and run this again"
        )


@contextmanager
def _open(source: Path) -> Iterator[BinaryIO]:
    if str(source) == "-":
        yield sys.stdin.buffer
    else:
        with source.open("rb") as file:
            yield file
