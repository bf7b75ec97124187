"""Images and documents in bodies, as files of their own.

Their first bytes decide on the media type, whatever the body states. Images of four types are displayed;
everything else is a download that no browser interprets.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

from wire.json_reading import as_list, as_object, as_text

MAX_PICTURE_CHARS = 8 << 20  # of base64
_HEAD_CHARS = 64
_PDF = b"%PDF-"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedFile:
    """A file from a body. ``picture_type`` is the media type if it is an image that may be displayed, else
    None."""

    data: bytes
    suffix: str
    picture_type: str | None


def find_picture_type(data: str) -> str | None:
    """Return the media type of a PNG, JPEG, GIF or WebP image in base64, None for anything else."""
    try:
        head = base64.b64decode(data[:_HEAD_CHARS], validate=True)
    except (binascii.Error, ValueError):
        return None
    return _picture_type(head)


def _picture_type(head: bytes) -> str | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def find_file(block: object) -> EmbeddedFile | None:
    """Return the file in a content block, None if it has none or its base64 is not valid."""
    source = as_object(as_object(block).get("source"))
    if source.get("type") != "base64":
        return None
    text = as_text(source.get("data"))
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = _picture_type(data[:_HEAD_CHARS])
    suffix = kind.removeprefix("image/") if kind else "pdf" if data.startswith(_PDF) else "bin"
    is_shown = len(text) <= MAX_PICTURE_CHARS
    return EmbeddedFile(data=data, suffix=suffix, picture_type=kind if is_shown else None)


def find_block(content: object, places: Sequence[int]) -> object:
    """Return the block at a place, which has an index from 0 for each level of nesting. Raises
    LookupError."""
    block: object = {"content": content}
    for place in places:
        inner = _inner(block)
        if not isinstance(inner, list):
            inner = [inner] if inner is not None else []
        block = as_list(inner)[place]
    return block


def _inner(block: object) -> object:
    """Return the content of a block: a result's own content, or that of a document's source."""
    item = as_object(block)
    content = item.get("content", as_object(item.get("source")).get("content"))
    if isinstance(content, dict) and "type" in content:
        if content["type"] == "text":
            return content
        return content.get("content")
    return content
