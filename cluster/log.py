"""The log of a cluster: streams of spool files, one for each bucket of organisations.

    taximeter:log:<bucket>     a stream; an entry is one file of the spool:
        v      the version of this format
        name   the name of the file, which says the entry and its owner
        z      the file, compressed by Zstandard   (or)   f  the file as it is

Entries of one organisation are in one stream, in the order in which they were shipped.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import zstandard

from runtime.buckets import BUCKETS, find_bucket
from store.spool.format import SpoolError

__all__ = ["BUCKETS", "LoggedFile", "decode", "encode", "find_bucket", "stream_name"]

VERSION = b"1"
MIN_COMPRESSED_BYTES = 512
MAX_FILE_BYTES = 256 * 1024 * 1024

_NAME = re.compile(r"[\w-]+(~[\w-]+){1,2}\.done", re.ASCII)
_compressor = zstandard.ZstdCompressor(level=1)
_decompressor = zstandard.ZstdDecompressor()


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file of the spool: its name without the folder, and its bytes."""

    name: str
    data: bytes


def stream_name(bucket: int) -> str:
    return f"taximeter:log:{bucket}"


def encode(file: LoggedFile) -> dict[bytes, bytes]:
    """Return the fields of a stream's entry."""
    fields = {b"v": VERSION, b"name": file.name.encode()}
    if len(file.data) >= MIN_COMPRESSED_BYTES:
        compressed = _compressor.compress(file.data)
        if len(compressed) < len(file.data):
            return fields | {b"z": compressed}
    return fields | {b"f": file.data}


def decode(fields: Mapping[bytes, bytes]) -> LoggedFile:
    """Return the file in the fields of an entry. Raises SpoolError for what is none, or of a version
    that this program does not know."""
    if fields.get(b"v") != VERSION:
        raise SpoolError(
            f"an entry of version {fields.get(b'v')!r}: this program knows {VERSION!r}"
        )
    try:
        name = fields[b"name"].decode("ascii")
        data = fields.get(b"f")
        if data is None:
            data = _decompressor.decompress(fields[b"z"], max_output_size=MAX_FILE_BYTES)
    except (KeyError, UnicodeDecodeError, zstandard.ZstdError) as error:
        raise SpoolError(f"an entry of the log that cannot be read: {error}") from error
    if not _NAME.fullmatch(name):
        raise SpoolError(f"{name!r} is not the name of a spool file")
    return LoggedFile(name, data)
