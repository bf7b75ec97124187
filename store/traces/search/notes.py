"""Searching the notes that people wrote about sessions and calls, by the same queries as texts.

They are few and short, so they are read and not indexed.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from store.database import list_columns
from store.traces.annotations import Note
from store.traces.search.query import Phrase, Query
from store.traces.search.text import find_words

MAX_READ = 1_000  # the newest; reading so many takes some 50 ms
MAX_FOUND = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNote:
    """A note that matches, with the session or the row id of the call that it is about."""

    session_id: str | None
    usage_id: int | None
    note: Note


def search_notes(connection: sqlite3.Connection, query: Query) -> list[FoundNote]:
    """Return the newest notes that match a query. Raises sqlite3.Error."""
    if not query.phrases or not list_columns(connection, "notes"):
        return []
    rows = connection.execute(
        "select session_id, usage_id, text, by, at from notes order by at desc limit ?", (MAX_READ,)
    )
    found = []
    for session_id, usage_id, text, by, at in rows:
        words = [word.folded for word in find_words(text)]
        if all(_has_phrase(words, phrase) for phrase in query.phrases):
            note = Note(text=text, by=by, at=at)
            found.append(FoundNote(session_id=session_id, usage_id=usage_id, note=note))
            if len(found) == MAX_FOUND:
                break
    return found


def _has_phrase(words: Sequence[str], phrase: Phrase) -> bool:
    """Return whether the words of a phrase follow each other; the last may be a beginning."""
    *first, last = phrase.words
    for begin in range(len(words) - len(first)):
        end = words[begin + len(first)]
        is_last = end.startswith(last) if phrase.is_prefix else end == last
        if is_last and list(words[begin : begin + len(first)]) == first:
            return True
    return False
