"""Labels and notes of sessions and calls: the tables ``labels`` and ``notes``.

They are removed together with their session or call."""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from store.annotation_rules import MAX_LABELS, Subject
from store.database import bind_list, list_columns, read_records

_COLUMNS = {"session": "session_id", "call": "usage_id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A label. ``by`` is the mail address of the user who added it, None for the operator."""

    label: str
    by: str | None
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note. ``by`` is the mail address of the user who wrote it last, None for the operator."""

    text: str
    by: str | None
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The labels of a session or a call, sorted, and its note."""

    labels: Sequence[Label] = ()
    note: Note | None = None


NOTHING = Annotations()


def read_of_session(connection: sqlite3.Connection, session_id: str) -> Annotations:
    """Return the labels and the note of a session. Raises sqlite3.Error."""
    return _read(connection, "session_id", session_id)


def read_of_call(connection: sqlite3.Connection, usage_id: int) -> Annotations:
    """Return the labels and the note of a call. Raises sqlite3.Error."""
    return _read(connection, "usage_id", usage_id)


def _read(connection: sqlite3.Connection, column: str, value: str | int) -> Annotations:
    if not list_columns(connection, "notes"):  # the recorder makes and migrates it
        return NOTHING
    labels = read_records(
        connection,
        Label,
        f"select label, by, at from labels where {column} = ? order by label",  # noqa: S608 - our name
        (value,),
    )
    notes = read_records(
        connection,
        Note,
        f"select text, by, at from notes where {column} = ?",  # noqa: S608 - our name
        (value,),
    )
    return Annotations(labels=tuple(labels), note=notes[0] if notes else None)


def list_labels_of_sessions(
    connection: sqlite3.Connection, session_ids: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """Return the labels of those ``session_ids`` that have any. Raises sqlite3.Error."""
    if not session_ids or not list_columns(connection, "labels"):
        return {}
    found: defaultdict[str, list[str]] = defaultdict(list)
    rows = connection.execute(
        "select session_id, label from labels"
        " where session_id in (select value from json_each(?)) order by label",
        (bind_list(session_ids),),
    )
    for session_id, label in rows:
        found[session_id].append(label)
    return found


def count_labels(connection: sqlite3.Connection, limit: int) -> list[tuple[str, int]]:
    """Return the ``limit`` most frequent labels with the numbers of their sessions and calls.

    Raises sqlite3.Error."""
    return connection.execute(
        "select label, count(*) from labels group by label order by 2 desc, 1 limit ?", (limit,)
    ).fetchall()


def find_row(connection: sqlite3.Connection, subject: Subject) -> str | int | None:
    """Return the session id or row id of a session or call in the tables, or None if it does not exist.

    A call is found by the id of its entry, or by its row id."""
    if subject.kind == "session":
        row = connection.execute(
            "select session_id from sessions where session_id = ?", (subject.id,)
        ).fetchone()
    else:
        column = "id" if subject.id.isdecimal() else "entry_id"
        row = connection.execute(
            f"select id from usage where {column} = ?",  # noqa: S608 - one of two names
            (subject.id,),
        ).fetchone()
    return None if row is None else row[0]


def find_session(connection: sqlite3.Connection, usage_id: int) -> str | None:
    """Return the id of the session of a stored call, or None if it has none. Raises sqlite3.Error."""
    (session,) = connection.execute(
        "select session from usage_log where id = ?", (usage_id,)
    ).fetchone()
    return None if session is None else str(session)


def find_entry_id(connection: sqlite3.Connection, usage_id: int) -> str | None:
    """Return the id of the entry of a call, or None if there is no such call."""
    row = connection.execute("select entry_id from usage where id = ?", (usage_id,)).fetchone()
    return None if row is None else row[0]


def write_label(
    connection: sqlite3.Connection, subject: Subject, row: str | int, given: Label
) -> None:
    """Add a label, unless the subject has it or has ``MAX_LABELS`` already. The caller holds the write
    lock."""
    column = _COLUMNS[subject.kind]
    connection.execute(
        f"insert into labels ({column}, label, by, at) select ?, ?, ?, ?"  # noqa: S608 - our name
        f" where (select count(*) from labels where {column} = ?) < {MAX_LABELS}"
        f" on conflict ({column}, label) do nothing",
        (row, given.label, given.by, given.at, row),
    )


def remove_label(
    connection: sqlite3.Connection, subject: Subject, row: str | int, label: str
) -> None:
    """Remove a label, if it is there. The caller holds the write lock."""
    connection.execute(
        f"delete from labels where {_COLUMNS[subject.kind]} = ? and label = ?",  # noqa: S608
        (row, label),
    )


def write_note(
    connection: sqlite3.Connection, subject: Subject, row: str | int, note: Note
) -> None:
    """Write a note, in place of an earlier one. The caller holds the write lock."""
    column = _COLUMNS[subject.kind]
    connection.execute(
        f"insert into notes ({column}, text, by, at) values (?, ?, ?, ?)"  # noqa: S608 - our name
        f" on conflict ({column}) do update"
        " set text = excluded.text, by = excluded.by, at = excluded.at",
        (row, note.text, note.by, note.at),
    )


def remove_note(connection: sqlite3.Connection, subject: Subject, row: str | int) -> None:
    """Remove a note, if there is one. The caller holds the write lock."""
    connection.execute(
        f"delete from notes where {_COLUMNS[subject.kind]} = ?",  # noqa: S608 - our name
        (row,),
    )


def add_to_call(connection: sqlite3.Connection, entry_id: str, given: Annotations) -> None:
    """Add labels to a call, and a note if it has none. The caller holds the write lock."""
    found = connection.execute("select id from usage where entry_id = ?", (entry_id,)).fetchone()
    if found is not None:
        _add(connection, Subject("call", entry_id), found[0], given)


def add_to_session_of(connection: sqlite3.Connection, entry_id: str, given: Annotations) -> None:
    """Add labels to the session of a call, and a note if it has none.

    The caller holds the write lock."""
    found = connection.execute("select id from usage where entry_id = ?", (entry_id,)).fetchone()
    session = None if found is None else find_session(connection, found[0])
    if session is not None:
        _add(connection, Subject("session", session), session, given)


def _add(
    connection: sqlite3.Connection, subject: Subject, row: str | int, given: Annotations
) -> None:
    for label in given.labels:
        write_label(connection, subject, row, label)
    if given.note is not None and _read(connection, _COLUMNS[subject.kind], row).note is None:
        write_note(connection, subject, row, given.note)


def remove_of_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove the labels and the note of a removed session. The caller holds the write lock."""
    for table in ("labels", "notes"):
        connection.execute(f"delete from {table} where session_id = ?", (session_id,))  # noqa: S608


def move_to_session(connection: sqlite3.Connection, left: str, joined: str) -> None:
    """Move the labels and the note of session ``left`` to session ``joined``, which has its calls now.

    The note that ``joined`` has itself stays. The caller holds the write lock."""
    for table in ("labels", "notes"):
        connection.execute(
            f"update or ignore {table} set session_id = ? where session_id = ?",  # noqa: S608
            (joined, left),
        )
    remove_of_session(connection, left)
