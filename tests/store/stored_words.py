"""Looking for a word in the files of a folder, as somebody would who has the disk.

Files are searched as they are and without regard to case, and so is whatever in them can be decompressed.
The full-text index has words without the beginning that they share with the word before, so the first
letters of the word are left out.
"""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import zstandard

_SHARED = 3
_MOST = 1_000_000
# The first bytes of gzip members, zlib streams and zstd frames.
_BEGINNINGS = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]|\x28\xb5\x2f\xfd")


def find_word(folder: Path, word: str) -> list[str]:
    """Return the names of files that have the word, with how it is there."""
    needle = word[_SHARED:].lower().encode()
    return [
        f"{path.relative_to(folder)} ({how})"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for how, data in _read(path.read_bytes())
        if needle in data.lower()
    ]


def _read(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield "plain", data
    for found in _BEGINNINGS.finditer(data):
        yield "compressed", _decompress(data[found.start() : found.start() + _MOST])


def _decompress(data: bytes) -> bytes:
    """Return the beginning of what was compressed, as far as it can be read: nothing, where it was not."""
    try:
        if data.startswith(b"\x28\xb5\x2f\xfd"):
            return zstandard.ZstdDecompressor().decompressobj().decompress(data)
        return zlib.decompressobj(wbits=47).decompress(data, _MOST)
    except (zlib.error, zstandard.ZstdError):
        return b""
