"""Search in the notes and labels of sessions and calls, with the same queries as for texts.

Notes and labels are few and short, so they are not indexed."""

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
    """A matching note, with the id of its session or the row id of its call.

    ``session_title`` is None for a call, or if the title is not known."""

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
    """Return the labels that match a query, the most frequent first.

    Raises sqlite3.Error."""
    if not query.phrases or not list_columns(connection, "labels"):
        return []
    labels = (label for label, _ in count_labels(connection, MAX_READ) if _matches(query, label))
    return list(islice(labels, MAX_FOUND))


def _matches(query: Query, text: str) -> bool:
    words = [word.folded for word in find_words(text)]
    return all(_has_phrase(words, phrase) for phrase in query.phrases)


def _has_phrase(words: Sequence[str], phrase: Phrase) -> bool:
    """Return whether the words of a phrase follow each other in ``words``.

    If the phrase is a prefix, its last word may be the beginning of a word."""
    *first, last = phrase.words
    for begin in range(len(words) - len(first)):
        end = words[begin + len(first)]
        is_last = end.startswith(last) if phrase.is_prefix else end == last
        if is_last and list(words[begin : begin + len(first)]) == first:
            return True
    return False
