"""Searching the notes and labels that people gave to sessions and calls, by the same queries as texts.

They are few and short, so they are read and not indexed.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from store.database import list_columns
from store.traces.annotations import Note, count_labels
from store.traces.search.query import Phrase, Query
from store.traces.search.text import find_words

MAX_READ = 1_000  # the newest; reading so many takes some 50 ms
MAX_FOUND = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNote:
    """A note that matches, with the session or the row id of the call that it is about.

    ``session_title`` is None of a call, and where it is not known what the session is about."""

    session_id: str | None
    session_title: str | None
    usage_id: int | None
    note: Note


def search_notes(connection: sqlite3.Connection, query: Query) -> list[FoundNote]:
    """Return the newest notes that match a query. Raises sqlite3.Error."""
    if not query.phrases or not list_columns(connection, "notes"):
        return []
    rows = connection.execute(
        "select n.session_id, s.title, n.usage_id, n.text, n.by, n.at"
        " from (select * from notes order by at desc limit ?) as n"
        " left join sessions as s on s.session_id = n.session_id order by n.at desc",
        (MAX_READ,),
    )
    found = (
        FoundNote(
            session_id=session_id,
            session_title=title,
            usage_id=usage_id,
            note=Note(text=text, by=by, at=at),
        )
        for session_id, title, usage_id, text, by, at in rows
        if _matches(query, text)
    )
    return list(islice(found, MAX_FOUND))


def search_labels(connection: sqlite3.Connection, query: Query) -> list[str]:
    """Return the labels that match a query, the one that most sessions and calls have first.

    Raises sqlite3.Error."""
    if not query.phrases or not list_columns(connection, "labels"):
        return []
    labels = (label for label, _ in count_labels(connection, MAX_READ) if _matches(query, label))
    return list(islice(labels, MAX_FOUND))


def _matches(query: Query, text: str) -> bool:
    words = [word.folded for word in find_words(text)]
    return all(_has_phrase(words, phrase) for phrase in query.phrases)


def _has_phrase(words: Sequence[str], phrase: Phrase) -> bool:
    """Return whether the words of a phrase follow each other; the last may be a beginning."""
    *first, last = phrase.words
    for begin in range(len(words) - len(first)):
        end = words[begin + len(first)]
        is_last = end.startswith(last) if phrase.is_prefix else end == last
        if is_last and list(words[begin : begin + len(first)]) == first:
            return True
    return False
