"""Untrusted text made safe to show: on a page, on a terminal, in a header of a mail.

Names, models and errors come from clients, upstreams and other services. They may contain characters
that control a terminal, begin another line, change the direction of text, or are invisible."""

import re

_HIDDEN_CODES = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFFA0),
    *(0x200B, 0x200E, 0x200F, 0xFEFF),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xD800, 0xE000),  # halves of surrogate pairs
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),  # tags: text that only models see
)
_NAMES = {chr(code): f"⟨U+{code:04X}⟩" for code in _HIDDEN_CODES}
# One class with both would be searched range by range, which takes ten times as long.
_HIDDEN = re.compile(f"[{re.escape(''.join(each for each in _NAMES if each < chr(0x10000)))}]")
_HIDDEN_TAGS = re.compile("[\U000e0000-\U000e007f]")
# They join letters and emoji, and terminals disagree on how wide the result is.
_JOINERS = str.maketrans("", "", "\u200c\u200d")


def reveal(text: str) -> str:
    """Return text for a page, with invisible and control characters replaced by their names.

    Line ends are kept. Markup is not escaped; templates do that."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return _HIDDEN_TAGS.sub(_name_of, _HIDDEN.sub(_name_of, text))


def _name_of(found: re.Match[str]) -> str:
    return _NAMES[found[0]]


def terminal_line(text: str) -> str:
    """Return text as one line for a terminal, with ``?`` for every character that is not printable."""
    if text.isprintable():  # as nearly all are; joiners are not
        return text
    return _replace_unprintable(text.translate(_JOINERS), "?")


def terminal_lines(text: str) -> str:
    """Return text of several lines, each made safe as by ``terminal_line``."""
    return "\n".join(map(terminal_line, text.split("\n")))


def header_line(text: str) -> str:
    """Return text as one line for a mail's header, with a space for each unprintable character.

    Encoded words (RFC 2047) are broken up: they would be decoded when the header is written or read,
    and Python before 3.12.5 writes line ends in them unchanged."""
    return _replace_unprintable(text, " ").replace("=?", "= ?")


def _replace_unprintable(text: str, substitute: str) -> str:
    return "".join(char if char.isprintable() else substitute for char in text)


_REDACTED = "***"
_AFTER_PLACE = re.compile("[?#]")


def hide_credentials(text: str) -> str:
    """Return an address without user, password, query and fragment.

    Other text is returned without the part before its last ``@``, and without the part after ``?`` or
    ``#``."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        scheme, rest = "", text
    _, at, place = rest.rpartition("@")
    return scheme + mark + (_REDACTED + at if at else "") + _AFTER_PLACE.split(place, maxsplit=1)[0]
