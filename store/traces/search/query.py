"""Parsing of search queries. Any text is a query.

Text in quotes is a phrase, and everything else is words that must all occur. The last word may end
with an asterisk and is then a prefix. Text without letters and digits is ignored. All parts become
FTS5 strings, in which no character has a special meaning."""

import re
from dataclasses import dataclass

from runtime.errors import InvalidInputError
from store.traces.search.text import find_words, separate_ideographs
from store.traces.search.walk import Role

MAX_CHARS = 1_000
MAX_WORDS = 64  # of all phrases: SQLite looks at each in all its places
MIN_PREFIX_CHARS = 2  # a shorter beginning stands for half of all words
_TERM = re.compile(r'"([^"]*)(?:"|$)|[^\s"]+')


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """Words that follow each other, without case and accents. ``is_prefix``: the last one is a prefix."""

    words: tuple[str, ...]
    text: str
    is_prefix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Different phrases that must all occur in a text. A query without phrases finds nothing."""

    phrases: tuple[Phrase, ...]

    def match(self, role: Role | None = None) -> str:
        """Return the query in the syntax of FTS5, limited to the column of ``role`` if given."""
        phrases = " AND ".join(
            f'"{separate_ideographs(each.text)}"{" *" if each.is_prefix else ""}'
            for each in self.phrases
        )
        return phrases if role is None else f"{{{role}}} : ({phrases})"


def parse_query(text: str) -> Query:
    """Return the query in a text. Raises InvalidInputError if the text is too long."""
    if len(text) > MAX_CHARS:
        raise InvalidInputError(f"q is longer than {MAX_CHARS} characters: write fewer words", "q")
    clean = text.replace("\0", " ").encode("utf-8", "replace").decode()
    found = list(_TERM.finditer(clean))
    phrases = dict[tuple[tuple[str, ...], bool], Phrase]()
    for number, term in enumerate(found, 1):
        is_open = term[1] is None
        words = tuple(word.folded for word in find_words(term[0]))
        is_prefix = (
            is_open
            and number == len(found)
            and term[0].endswith("*")
            and bool(words)
            and len(words[-1]) >= MIN_PREFIX_CHARS
        )
        if words:
            said = term[0].replace('"', " ").replace("*", " ").strip()
            # A repeated one finds nothing more, and SQLite would look at all its places once more.
            phrases.setdefault(
                (words, is_prefix), Phrase(words=words, text=said, is_prefix=is_prefix)
            )
    if sum(len(words) for words, _ in phrases) > MAX_WORDS:
        raise InvalidInputError(f"q has more than {MAX_WORDS} words: write fewer of them", "q")
    return Query(phrases=tuple(phrases.values()))
