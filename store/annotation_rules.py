"""Labels and notes of sessions and calls: their limits, and the subject of an order to write one.

A label is a few words in small letters, a note is a text. Only the recorder writes into trace
databases, so it carries out what people order."""

import unicodedata
from dataclasses import dataclass
from typing import Literal, get_args

from metering.formats import format_count
from runtime.errors import InvalidInputError, NotFoundError

type Kind = Literal["session", "call"]

MAX_LABEL_CHARS, MAX_NOTE_CHARS = 40, 2_000
MAX_LABELS = 20  # of a session or a call
MAX_SUBJECT_CHARS = 1_000
# Characters that could redraw what shows them, and those that are no text at all.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Subject:
    """The session or the call that has a label or note. ``id`` is the session's id or the id of the call's
    entry."""

    kind: Kind
    id: str


def parse_kind(text: str) -> Kind:
    """Return the kind of subject that ``text`` names. Raises NotFoundError for another text."""
    for kind in get_args(Kind.__value__):
        if text == kind:
            found: Kind = kind
            return found
    raise NotFoundError("labels and notes are of a session or of a call")


def check_label(text: str) -> str:
    """Return a label in small letters, without space around it. Raises InvalidInputError."""
    label = text.strip().lower()
    if not 1 <= len(label) <= MAX_LABEL_CHARS:
        raise InvalidInputError(f"a label has 1 to {MAX_LABEL_CHARS} characters", "label")
    if "/" in label or any(unicodedata.category(each) in _REFUSED for each in label):
        raise InvalidInputError(
            "a label is one line of text without control characters and slashes", "label"
        )
    return label


def check_note(text: str) -> str:
    """Return a note without space around it. Raises InvalidInputError."""
    note = text.replace("\r\n", "\n").strip()
    if not 1 <= len(note) <= MAX_NOTE_CHARS:
        raise InvalidInputError(
            f"a note has 1 to {format_count(MAX_NOTE_CHARS)} characters", "text"
        )
    if any(unicodedata.category(each) in _REFUSED and each not in "\n\t" for each in note):
        raise InvalidInputError("a note is text without control characters", "text")
    return note
