"""Bodies as JSON, generated in parts, so that the JSON of a large one is never in memory as a whole.

A body may have 32 MB, and its JSON six times as much. A body that is not text is written as
Datasette does: ``{"$base64": true, "encoded": "…"}``."""

import base64
import codecs
from collections.abc import Iterable, Iterator

import orjson

PART_BYTES = 32 << 10  # of a body at once


def encode_body(chunks: Iterable[bytes], *, is_text: bool) -> Iterator[bytes]:
    """Yield the JSON of a body given in chunks, in parts of at most some 200 KB."""
    parts = (
        chunk[at : at + PART_BYTES] for chunk in chunks for at in range(0, len(chunk), PART_BYTES)
    )
    return _encode_text(parts) if is_text else _encode_bytes(parts)


def _encode_text(parts: Iterable[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    yield b'"'
    for part in parts:
        yield orjson.dumps(decoder.decode(part))[1:-1]
    yield orjson.dumps(decoder.decode(b"", final=True))[1:]


def _encode_bytes(parts: Iterable[bytes]) -> Iterator[bytes]:
    yield b'{"$base64":true,"encoded":"'
    left = b""
    for part in parts:
        data = left + part
        left = data[len(data) - len(data) % 3 :]
        yield base64.b64encode(data[: len(data) - len(left)])
    yield base64.b64encode(left) + b'"}'
