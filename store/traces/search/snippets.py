"""Snippets: the part of a text around the words that were searched for."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from store.traces.search.query import Phrase, Query
from store.traces.search.text import Word, find_words
from store.traces.search.walk import Role, Texts

BEFORE, LENGTH = 60, 240  # characters of a snippet before its first match, and of all of it
MAX_MATCHES = 200  # that are looked for in a text, over all phrases
WORDS_BETWEEN_LOOKS = 256  # at the clock: what these take is a few milliseconds at the most
_PREFIXES = "*"  # is no word


class Snippet(NamedTuple):
    """A part of a text, its role, and (start, end) of each searched word in it."""

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


def make_snippet(
    texts: Texts,
    query: Query,
    role: Role | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Snippet | None:
    """Return the best part of the texts, of those of ``role`` if given. None without any text.

    Once ``is_over`` returns True, the best part found so far is returned."""
    best: tuple[int, Role, str, list[_Match]] | None = None
    for said_by, text in texts:
        if role not in (None, said_by):
            continue
        matches = sorted(_find_matches(find_words(text), query.phrases, is_over))
        found = len({match.phrase for match in matches})
        if best is None or found > best[0]:
            best = found, said_by, text, matches
        if found == len(query.phrases) or is_over():
            break
    if best is None:
        return None
    _, said_by, text, matches = best
    return _cut(said_by, text, matches)


def _find_matches(
    words: Iterable[Word], phrases: Sequence[Phrase], is_over: Callable[[], bool]
) -> Iterator[_Match]:
    """Yield the matches of phrases, each phrase up to its share of ``MAX_MATCHES``."""
    left = dict.fromkeys(range(len(phrases)), max(1, MAX_MATCHES // max(1, len(phrases))))
    ends = defaultdict[str, list[int]](list)  # phrases by their last words
    for number, phrase in enumerate(phrases):
        ends[_PREFIXES if phrase.is_prefix else phrase.words[-1]].append(number)
    recent = deque[Word](maxlen=max((len(each.words) for each in phrases), default=1))
    for count, word in enumerate(words, 1):
        recent.append(word)
        for number in (*ends.get(word.folded, ()), *ends.get(_PREFIXES, ())):
            if number in left and _fits(recent, phrases[number]):
                yield _Match(recent[-len(phrases[number].words)].start, word.end, number)
                left[number] -= 1
                if not left[number]:
                    del left[number]
        if not left or (count % WORDS_BETWEEN_LOOKS == 0 and is_over()):
            return


def _fits(recent: Sequence[Word], phrase: Phrase) -> bool:
    """Return whether the last words are those of a phrase. The very last may have the phrase's word as
    prefix."""
    if len(recent) < len(phrase.words) or not recent[-1].folded.startswith(phrase.words[-1]):
        return False
    return all(
        word.folded == wanted
        for wanted, word in islice(
            zip(reversed(phrase.words), reversed(recent), strict=False), 1, None
        )
    )


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
    """Return the start of the match from which a snippet has the most different phrases."""
    if not matches:
        return 0
    return max(
        matches,
        key=lambda match: len(
            {
                other.phrase
                for other in matches
                if match.start <= other.start and other.end <= match.start + LENGTH - BEFORE
            }
        ),
    ).start
