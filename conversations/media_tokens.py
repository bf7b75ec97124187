"""The tokens of images and documents, from the first bytes of an image or the pages of a PDF.

No picture is decoded: width and height are in the header. Text in a document counts as text."""

import base64
import binascii
import re
import struct
from math import ceil, sqrt

from conversations.token_rules import ModelTokens, TokenRules
from wire.json_reading import as_object, as_text, parse_object

HEAD_CHARS = 64 * 1024  # of base64; a JPEG may have a preview before its size
MAX_DOCUMENT_CHARS = 12 * 1024 * 1024
_PAGE = re.compile(rb"/Type\s*/Page\b(?!s)")
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PNG, _GIF = b"\x89PNG\r\n\x1a\n", b"GIF8"


def estimate_image(source: bytes, of_model: ModelTokens, rules: TokenRules) -> int:
    """Return the estimated tokens of an image, from the JSON of its source."""
    data = as_text((parse_object(source) or {}).get("data"))
    size = find_size(_decode(data[:HEAD_CHARS]))
    if size is None or not all(size):
        return rules.image_unknown
    width, height = size
    scale = min(1.0, of_model.image_edge / max(width, height))
    area = of_model.image_tokens * rules.image_patch**2
    scale = min(scale, sqrt(area / (width * height)))
    patches = (max(ceil(side * scale / rules.image_patch), 1) for side in (width, height))
    return min(next(patches) * next(patches), of_model.image_tokens)


def estimate_document(source: bytes, rules: TokenRules) -> float:
    """Return the estimated tokens of a document, from the JSON of its source or of its content."""
    fields = as_object(parse_object(source))
    if fields.get("type") != "base64":
        return len(source) / rules.bytes_per_token["prose"]
    data = as_text(fields.get("data"))
    pages = len(_PAGE.findall(_decode(data[:MAX_DOCUMENT_CHARS])))
    if not pages:
        return len(data) / rules.bytes_per_token["page_unknown"]
    return pages * rules.page


def find_size(head: bytes) -> tuple[int, int] | None:
    """Return (width, height) in pixels of a PNG, JPEG, GIF or WebP by its first bytes, or None."""
    try:
        if head.startswith(_PNG):
            return struct.unpack(">II", head[16:24])
        if head.startswith(_GIF):
            return struct.unpack("<HH", head[6:10])
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return _find_webp_size(head)
        if head.startswith(b"\xff\xd8"):
            return _find_jpeg_size(head)
    except struct.error:  # it ends before its size
        return None
    return None


def _find_jpeg_size(head: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 4 <= len(head) and head[place] == 0xFF:
        marker, length = head[place + 1], struct.unpack(">H", head[place + 2 : place + 4])[0]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", head[place + 5 : place + 9])
            return width, height
        place += 2 + length
    return None


def _find_webp_size(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack("<I", head[21:25])
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    if kind == b"VP8X":
        width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
        return (width, height) if len(head) >= 30 else None
    return None


def _decode(data: str) -> bytes:
    """Return the bytes that base64 text encodes, b"" if it is not base64."""
    try:
        return base64.b64decode(data[: len(data) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""
