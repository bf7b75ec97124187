"""Words of texts: the parts of a text that are searched, and its division into words.

SQLite's tokenizer splits a text at every character that is neither letter nor digit. A run of
Chinese or Japanese has no such character and would be one word, so a space is put around each of
its characters, in the index and in queries. ``find_words`` splits as the tokenizer does, for
marking words in a text."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

MAX_CHARS = 200_000  # of one string; what comes after is not found
# A longer word is nobody's: an image, a signature, a key.
_MAX_WORD_CHARS = 200
_ENCODED = re.compile(rf"[A-Za-z0-9+/=_-]{{{_MAX_WORD_CHARS},}}+")
_NO_WORDS = re.compile(
    r"(?:toolu|srvtoolu|msg|req)_[A-Za-z0-9]+"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[\d\s.,:+-]*"
)
# Ideographs, kana and hangul.
_IDEOGRAPH = re.compile("[\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001b000-\U0001b16f\U00020000-\U000323af]")  # fmt: skip
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")


class Word(NamedTuple):
    """A word of a text: its position, and its letters without case and accents."""

    start: int
    end: int
    folded: str


def clean(text: str) -> str:
    """Return the part of a string that can be searched and shown, "" for ids and numbers."""
    if _NO_WORDS.fullmatch(text):
        return ""
    text = text[:MAX_CHARS]
    if len(text) >= _MAX_WORD_CHARS and _has_long_run(text) and _has_long_word(text):
        text = _ENCODED.sub(" ", text)
        if text.isspace():
            return ""
    if text.isascii():
        return text.replace("\0", " ") if "\0" in text else text
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def _has_long_run(text: str) -> bool:
    """Return whether the text may hold a word of ``_MAX_WORD_CHARS``.

    It may if an aligned block of half that length has no space or line break. This takes far less time
    than splitting the text. May be wrongly True, never wrongly False."""
    half = _MAX_WORD_CHARS // 2
    for start in range(0, len(text) - half + 1, half):
        if text.find(" ", start, start + half) < 0 and text.find("\n", start, start + half) < 0:
            return True
    return False


def _has_long_word(text: str) -> bool:
    return max(map(len, text.split()), default=0) >= _MAX_WORD_CHARS


def separate_ideographs(text: str) -> str:
    """Return the text with a space around each character that is a word by itself."""
    return text if text.isascii() else _IDEOGRAPH.sub(r" \g<0> ", text)


def find_words(text: str) -> Iterator[Word]:
    """Yield the words of a text, in order."""
    if text.isascii():
        for found in _ASCII_WORD.finditer(text):
            yield Word(found.start(), found.end(), found[0].lower())
        return
    start: int | None = None
    for place, character in enumerate(text):
        is_ideograph = _IDEOGRAPH.match(character) is not None
        is_part = not is_ideograph and _is_of_word(character, is_first=start is None)
        if is_part and start is None:
            start = place
        if not is_part and start is not None:
            yield Word(start, place, fold(text[start:place]))
            start = None
        if is_ideograph:
            yield Word(place, place + 1, character)
    if start is not None:
        yield Word(start, len(text), fold(text[start:]))


def fold(word: str) -> str:
    """Return a word without case and accents, in the form of the index."""
    if word.isascii():
        return word.lower()
    folded = (each.casefold() for each in word)  # SQLite folds to one character or not at all
    lower = "".join(
        new if len(new) == 1 else old.lower() for old, new in zip(word, folded, strict=True)
    )
    decomposed = unicodedata.normalize("NFD", lower)
    return "".join(each for each in decomposed if not unicodedata.combining(each))


def _is_of_word(character: str, *, is_first: bool) -> bool:
    category = unicodedata.category(character)
    if category[0] in "LN" or category == "Co":
        return True
    return not is_first and category[0] == "M"  # an accent after its letter
