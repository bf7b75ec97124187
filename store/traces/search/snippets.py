"""Snippets: the part of a text around the words that were searched for."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from store.traces.search.query import Phrase, Query
from store.traces.search.text import Word, find_words
from store.traces.search.walk import Role, Texts

BEFORE, LENGTH = 60, 240  # characters of a snippet before its first match, and of all of it


class Snippet(NamedTuple):
    """A part of a text, who said it, and where its words are that were searched for."""

    role: Role
    text: str
    marks: tuple[tuple[int, int], ...]


class _Match(NamedTuple):
    start: int
    end: int
    phrase: int


def split_marks(text: str, marks: Iterable[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, each with whether it is marked."""
    place = 0
    for start, end in marks:
        if start >= place:
            yield text[place:start], False
            yield text[start:end], True
            place = end
    yield text[place:], False


def make_snippet(texts: Texts, query: Query, role: Role | None = None) -> Snippet | None:
    """Return the best part of texts, of those of one role if it is given. None without any text."""
    best: tuple[int, Role, str, list[_Match]] | None = None
    for said_by, text in texts:
        if role not in (None, said_by):
            continue
        matches = sorted(_find_matches(find_words(text), query.phrases))
        found = len({match.phrase for match in matches})
        if best is None or found > best[0]:
            best = found, said_by, text, matches
        if found == len(query.phrases):
            break
    if best is None:
        return None
    _, said_by, text, matches = best
    return _cut(said_by, text, matches)


def _find_matches(words: Sequence[Word], phrases: Sequence[Phrase]) -> Iterator[_Match]:
    folded = [word.folded for word in words]
    for number, phrase in enumerate(phrases):
        first, *others = phrase.words
        length = len(phrase.words)
        for place, word in enumerate(folded[: len(folded) - length + 1]):
            if not others:
                fits = word.startswith(first) if phrase.is_prefix else word == first
            else:
                fits = word == first and _fits(folded[place + 1 : place + length], others, phrase)
            if fits:
                yield _Match(words[place].start, words[place + length - 1].end, number)


def _fits(words: Sequence[str], wanted: Sequence[str], phrase: Phrase) -> bool:
    if phrase.is_prefix:
        return words[:-1] == wanted[:-1] and words[-1].startswith(wanted[-1])
    return words == wanted


def _cut(role: Role, text: str, matches: Sequence[_Match]) -> Snippet:
    start = max(0, _choose(matches) - BEFORE)
    if start and (space := text.find(" ", start, start + BEFORE)) >= 0:
        start = space + 1
    end = start + LENGTH
    marks = [
        (match.start - start, match.end - start)
        for match in matches
        if match.start >= start and match.end <= end
    ]
    before, after = "… " if start else "", " …" if end < len(text) else ""
    shift = len(before)
    return Snippet(
        role,
        f"{before}{text[start:end]}{after}",
        tuple((first + shift, last + shift) for first, last in marks),
    )


def _choose(matches: Sequence[_Match]) -> int:
    """Return the match from which on a snippet has the most of the phrases."""
    if not matches:
        return 0
    return max(
        matches[:200],
        key=lambda match: len(
            {
                other.phrase
                for other in matches[:200]
                if match.start <= other.start and other.end <= match.start + LENGTH - BEFORE
            }
        ),
    ).start
