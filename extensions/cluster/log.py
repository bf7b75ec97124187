"""The log of a cluster: streams of spool files, one for each bucket of organisations.

    taximeter:log:<bucket>     a stream (``keys.LOG``); an entry is one file of the spool:
        v      the version of this format
        name   the name of the file, which says the entry and its owner
        z      the file, compressed by Zstandard   (or)   f  the file as it is

Entries of one organisation are in one stream, in the order in which they were shipped.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import zstandard

from extensions.cluster import keys
from extensions.cluster.buckets import BUCKETS, find_bucket
from store.spool.format import REJECTIONS, SpoolError

__all__ = ["BUCKETS", "LoggedFile", "decode", "encode", "find_bucket", "stream_name"]

VERSION = b"1"
MIN_COMPRESSED_BYTES = 512
MAX_FILE_BYTES = 256 * 1024 * 1024

# As long as what the proxy names: a UUID with a number, an organisation and the run of a client.
_NAME = re.compile(r"[\w-]{1,64}~(?P<owner>[\w-]{1,64})(~[\w.-]{1,64})?\.done", re.ASCII)
_compressor = zstandard.ZstdCompressor(level=1)
_decompressor = zstandard.ZstdDecompressor()


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A spool file as stored in the log: its name without the folder, and its bytes."""

    name: str
    data: bytes


def stream_name(bucket: int) -> str:
    return f"{keys.LOG}{bucket}"


def encode(file: LoggedFile) -> dict[bytes, bytes]:
    """Return the fields of a stream entry for a spool file."""
    fields = {b"v": VERSION, b"name": file.name.encode()}
    if len(file.data) >= MIN_COMPRESSED_BYTES:
        compressed = _compressor.compress(file.data)
        if len(compressed) < len(file.data):
            return fields | {b"z": compressed}
    return fields | {b"f": file.data}


def decode(stream: str, fields: Mapping[bytes, bytes]) -> LoggedFile:
    """Return the spool file in the fields of a stream entry.

    Raises SpoolError if there is no file, its format version is unknown, or its organisation belongs
    in another stream."""
    if fields.get(b"v") != VERSION:
        raise SpoolError(
            f"an entry of version {fields.get(b'v')!r}: this program knows {VERSION!r}"
        )
    try:
        name = fields[b"name"].decode("ascii")
        data = fields.get(b"f")
        if data is None:
            data = _decompress(fields[b"z"])
    except (KeyError, UnicodeDecodeError, zstandard.ZstdError) as error:
        raise SpoolError(f"an entry of the log that cannot be read: {error}") from error
    match = _NAME.fullmatch(name)
    if match is None:
        raise SpoolError(f"{name[:200]!r} is not the name of a spool file")
    if match["owner"] != REJECTIONS and stream != stream_name(find_bucket(match["owner"])):
        raise SpoolError(f"{name} is of another bucket")
    return LoggedFile(name, data)


def _decompress(data: bytes) -> bytes:
    # A frame says how large it becomes, and room for that would be made before any of it is read.
    if zstandard.frame_content_size(data) > MAX_FILE_BYTES:
        raise SpoolError(f"an entry of more than {MAX_FILE_BYTES} bytes")
    return _decompressor.decompress(data, max_output_size=MAX_FILE_BYTES)
