"""The title of a call: the first words of the last user message.

Clients put reminders of their own into user messages, and the last messages of an agent are mostly
tool results. So the title comes from the last user message with text outside of reminders. A
summary that a client put in place of earlier messages is the title only if there is no other text
beside it."""

import re
from collections.abc import Sequence

from wire.json_reading import as_objects, as_text
from wire.request import CONTINUATION

MAX_CHARS = 80
CUT = "…"  # at the end of a title that is not all of its text
_REMINDER, _END = "<system-reminder>", "</system-reminder>"
_BEFORE_CUT = ".,:;… "  # a cut text ends in "…" alone, not in "…." or "word,…"
_SPACE = re.compile(r"[ \t\r\n]+")
_READ_CHARS = 400  # as many of a text as may become its title


def find_title(messages: Sequence[object]) -> str | None:
    """Return the title of a call with these messages, or None if there is no such text.

    The text comes from outside and may contain any characters. Never raises."""
    return next(filter(None, map(_read_title, reversed(messages))), None)


def find_asked(messages: Sequence[object]) -> int | None:
    """Return the index of the message with the title, or None. Never raises."""
    places = range(len(messages) - 1, -1, -1)
    return next((place for place in places if _read_title(messages[place])), None)


def is_reminder(text: str) -> bool:
    """Return whether a text is empty outside of reminders."""
    return not _skip_reminders(text).strip()


def _read_title(message: object) -> str | None:
    """Return the title in a message, or None."""
    if not isinstance(message, dict) or message.get("role") != "user":
        return None
    first: str | None = None
    for text in _list_texts(message.get("content")):
        title = _shorten(_skip_reminders(text))
        if title and not is_continuation(title):
            return title
        first = first or title or None
    return first


def is_continuation(title: str) -> bool:
    """Return whether a title is the beginning of a summary of the conversation so far."""
    return title.startswith(CONTINUATION)


def _list_texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [
        as_text(block.get("text")) for block in as_objects(content) if block.get("type") == "text"
    ]


def _skip_reminders(text: str) -> str:
    """Return the beginning of the text after leading reminders."""
    place = _skip_space(text, 0)
    while text.startswith(_REMINDER, place):
        end = text.find(_END, place)
        if end < 0:
            return ""
        place = _skip_space(text, end + len(_END))
    return text[place : place + _READ_CHARS].partition(_REMINDER)[0]


def _skip_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _shorten(text: str) -> str:
    line = " ".join(text[: 2 * MAX_CHARS].split())
    if len(line) <= MAX_CHARS:  # few words, or much space between them
        line = " ".join(text.split())
    if len(line) > MAX_CHARS:
        words = line[: MAX_CHARS + 1].rpartition(" ")[0].rstrip(_BEFORE_CUT)
        line = f"{words or line[:MAX_CHARS]}{CUT}"
    return line
