"""Recorded text in responses to agents: marked as a quotation, cleaned, and short.

Anybody who can make a call can have its text read by an agent later, and a careless agent may take it
for an instruction. So recorded text is never a plain value but quoted, with its origin; it has no
invisible characters, and nothing that a client would fetch or show as a link or an image."""

import re
from typing import Any

MAX_CHARS = 300
_NAME = re.compile(r"[A-Za-z0-9._:@/+\-]{1,200}", re.ASCII)
_IMAGE = re.compile(r"!\[([^\[\]]{0,200})\]\([^()\s]{0,2000}\)")
_LINK = re.compile(r"\[([^\[\]]{0,200})\]\([^()\s]{0,2000}\)")
_ADDRESS = re.compile(r"(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]{0,20}://[^\s\"'<>`)\]]*")
_MARKUP = re.compile(r"<(/?[A-Za-z!])")


def quote(text: str | None, origin: str, max_chars: int = MAX_CHARS) -> dict[str, Any] | None:
    """Return a recorded text as a quotation for a response, None for None. ``origin`` names its source."""
    if text is None:
        return None
    cut = clean(text[:max_chars])
    quoted: dict[str, Any] = {"quoted": cut, "origin": origin}
    if len(text) > max_chars:
        quoted["cut"] = len(text) - max_chars
    return quoted


def name(text: str | None, origin: str) -> str | dict[str, Any] | None:
    """Return an id, a slug or a model unchanged if it looks like one, otherwise as ``quote`` returns it.

    None stays None."""
    if text is None or _NAME.fullmatch(text):
        return text
    return quote(text, origin)


def clean(text: str) -> str:
    """Return text without invisible characters, and without links, images and markup."""
    shown = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    shown = _IMAGE.sub(r"[image: \1]", shown)
    shown = _LINK.sub(r"\1 [link]", shown)
    shown = _ADDRESS.sub("[link]", shown)
    return _MARKUP.sub(r"< \1", shown)
