"""Lines of an export that are handed over to be imported, in files that the recorder stores.

Each is ``imports/<organization>/<id>.jsonl`` in the data directory; its calls are stored in one transaction,
and it goes once all is stored. One that is stored again changes nothing, since an entry is known by its id,
and a managed session or dream by its id and when it was read.
"""

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
    """Return where the files of an organisation are handed over."""
    return data_dir / FOLDER / organization_id


def list_organizations(data_dir: Path) -> list[str]:
    """Return the organisations that a file was handed over for."""
    return sorted({path.parent.name for path in (data_dir / FOLDER).glob(f"*/*{SUFFIX}")})


def find_next(data_dir: Path, organization_id: str) -> Path | None:
    """Return the file that was handed over first, None where there is none."""
    return min(find_folder(data_dir, organization_id).glob(f"*{SUFFIX}"), default=None)


def store_file(traces: TraceDatabase, path: Path) -> None:
    """Store the calls of a file, and remove it. One that no import has written gets another name.

    Raises LineError for that one, sqlite3.Error, OSError."""
    try:
        store_lines(traces, path.read_bytes().splitlines())
    except LineError:
        path.rename(path.with_suffix(REFUSED))
        raise
    path.unlink()


def store_lines(traces: TraceDatabase, lines: Iterable[bytes]) -> None:
    """Store what lines have, unless one of them is wrong. Raises LineError, sqlite3.Error."""
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
    """Return those of these entries that a trace database has. Raises sqlite3.Error."""
    return {entry_id for (entry_id,) in _select(traces, "entry_id", "entry_id", entry_ids)}


def find_messages(traces: Path, message_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return those of these messages of upstream that a trace database has, each with an entry's id.

    Raises sqlite3.Error."""
    return _select(traces, "message_id, entry_id", "message_id", message_ids)


def _select(traces: Path, columns: str, column: str, values: Sequence[str]) -> list[Any]:
    if not values or not traces.exists():
        return []
    sql = f"select {columns} from usage where {column} in (select value from json_each(?))"  # noqa: S608 - our own names
    with closing(open_readonly(traces, busy_timeout_s=BUSY_TIMEOUT_S)) as db:
        if column not in list_columns(db, "usage"):  # the recorder makes and migrates it
            return []
        return db.execute(sql, (bind_list(values),)).fetchall()
