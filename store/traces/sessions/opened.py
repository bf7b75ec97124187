"""One session with all data for its file and its JSON."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store.database import open_readonly
from store.traces.calls.cache_breaks import BrokenCall
from store.traces.sessions.deeds import Deeds
from store.traces.sessions.session_reader import (
    Agent,
    Session,
    SessionReader,
    Turn,
)
from store.traces.sums.usage_report import READ_TIMEOUT_S


@dataclass(frozen=True, kw_only=True)
class Opened:
    """One session with its agents, its last turns, and all its cache breaks.

    ``deeds`` has the tool uses and the first words of the responses of ``turns``."""

    session: Session
    agents: list[Agent]
    turns: list[Turn]
    deeds: Deeds
    breaks: list[BrokenCall]


def find_reader(connection: sqlite3.Connection | None) -> SessionReader | None:
    """Return the reader of sessions, or None without a connection or before the tables are created."""
    reader = None if connection is None else SessionReader(connection)
    return reader if reader is not None and reader.is_ready else None


def read_file[Found](path: Path, read: Callable[[SessionReader | None], Found]) -> Found:
    """Return the result of ``read`` for a trace database; its argument is None if there is none yet.

    Raises sqlite3.Error."""
    if not path.exists():
        return read(None)
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        return read(find_reader(db))


def open_session(reader: SessionReader | None, session_id: str) -> Opened | None:
    """Return a session, or None. Raises sqlite3.Error."""
    session = None if reader is None else reader.find(session_id)
    if reader is None or session is None:
        return None
    turns = reader.list_turns(session_id)
    return Opened(
        session=session,
        agents=reader.list_agents(session_id),
        turns=turns,
        deeds=reader.read_deeds(turns),
        breaks=reader.list_breaks(session_id),
    )
