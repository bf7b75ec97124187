"""One session with all that its page, its file and its JSON show."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from dashboard.sessions.story.story import tell_story
from dashboard.sessions.view import View
from store.traces.calls.cache_breaks import BrokenCall
from store.traces.sessions.deeds import Deeds
from store.traces.sessions.session_reader import Agent, Session, SessionReader, Turn

MOST_TURNS = 5_000  # of a story
NO_SESSION = "There is no such session, or retention has removed its calls."


@dataclass(frozen=True, kw_only=True)
class Opened:
    """One session with its agents, its last turns, what these did, and all calls that broke the cache."""

    session: Session
    agents: list[Agent]
    turns: list[Turn]
    deeds: Deeds
    breaks: list[BrokenCall]


def find_reader(connection: sqlite3.Connection | None) -> SessionReader | None:
    """Return the reader of sessions, None while nothing has been recorded that it could read."""
    reader = None if connection is None else SessionReader(connection)
    return reader if reader is not None and reader.is_ready else None


def open_view(
    reader: SessionReader | None, session_id: str, page: int, names: Mapping[str, str]
) -> View | None:
    """Return a page of the story of a session, or None. ``names`` are those of credentials.

    Raises sqlite3.Error."""
    session = None if reader is None else reader.find(session_id)
    if reader is None or session is None:
        return None
    turns = reader.list_turns(session_id, MOST_TURNS)
    deeds = reader.read_deeds(turns)
    story = tell_story(turns, deeds, max(session.calls - len(turns), 0))
    return View(
        session=session,
        story=story,
        page=min(page, max(len(story.pages), 1)),
        annotations=reader.read_annotations(session_id),
        names=names,
    )


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
