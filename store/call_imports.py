"""Files with lines of an export that wait to be imported by the recorder.

Each file is ``imports/<organization>/<id>.jsonl`` in the data directory. Its calls are stored in
one transaction, and the file is removed once all are stored. Storing a line again changes nothing:
an entry is known by its id, and a managed session or dream by its id and the time when it was read."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from store.database import bind_list, list_columns, open_readonly
from store.traces.calls.exported_call import parse_document, parse_row
from store.traces.calls.exported_object import is_object, parse_object_row
from store.traces.calls.line_fields import LineError
from store.traces.database import TraceDatabase

FOLDER = "imports"
SUFFIX = ".jsonl"
REFUSED = ".refused"
BUSY_TIMEOUT_S = 5.0


def find_folder(data_dir: Path, organization_id: str) -> Path:
    """Return the folder in which import files of an organisation wait."""
    return data_dir / FOLDER / organization_id


def list_organizations(data_dir: Path) -> list[str]:
    """Return the ids of organisations with import files that wait."""
    return sorted({path.parent.name for path in (data_dir / FOLDER).glob(f"*/*{SUFFIX}")})


def find_next(data_dir: Path, organization_id: str) -> Path | None:
    """Return the oldest import file of an organisation, or None."""
    return min(find_folder(data_dir, organization_id).glob(f"*{SUFFIX}"), default=None)


def store_file(traces: TraceDatabase, path: Path) -> None:
    """Store the calls of an import file and remove the file.

    A file whose lines are not valid is renamed and raises LineError. Also raises sqlite3.Error,
    OSError."""
    try:
        store_lines(traces, path.read_bytes().splitlines())
    except LineError:
        path.rename(path.with_suffix(REFUSED))
        raise
    path.unlink()


def store_lines(traces: TraceDatabase, lines: Iterable[bytes]) -> None:
    """Store the calls and objects in ``lines``, all or none. Raises LineError, sqlite3.Error."""
    rows = list(map(parse_document, lines))
    objects = [parse_object_row(row) for row in rows if is_object(row)]
    calls = [parse_row(row) for row in rows if not is_object(row)]
    judged = [call.judgement for call in calls if call.judgement is not None]
    if calls:
        traces.insert([call.entry for call in calls], judged)
        traces.annotate(
            [(call.entry.entry_id, call.annotations) for call in calls],
            [(call.entry.entry_id, call.session_annotations) for call in calls],
        )
    for each in objects:
        traces.write_upstream_objects(each.reading, [each.found])


def find_known(traces: Path, entry_ids: Sequence[str]) -> set[str]:
    """Return those of ``entry_ids`` that the trace database at ``traces`` has. Raises sqlite3.Error."""
    return {entry_id for (entry_id,) in _select(traces, "entry_id", "entry_id", entry_ids)}


def find_messages(traces: Path, message_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return (message id, entry id) for those of ``message_ids`` that the trace database has.

    Message ids are upstream's. Raises sqlite3.Error."""
    return _select(traces, "message_id, entry_id", "message_id", message_ids)


def _select(traces: Path, columns: str, column: str, values: Sequence[str]) -> list[Any]:
    if not values or not traces.exists():
        return []
    sql = f"select {columns} from usage where {column} in (select value from json_each(?))"  # noqa: S608 - our own names
    with closing(open_readonly(traces, busy_timeout_s=BUSY_TIMEOUT_S)) as db:
        if column not in list_columns(db, "usage"):  # the recorder makes and migrates it
            return []
        return db.execute(sql, (bind_list(values),)).fetchall()
