"""Lines of a stream that comes in chunks, of which none takes more than so much memory."""

from collections.abc import Iterable, Iterator


def split_lines(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes | None]:
    """Yield the lines without their ends, and None in place of one that is longer than ``max_bytes``."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            size += len(part)
            yield b"".join((*parts, part)) if size <= max_bytes else None
            parts, size = [], 0
        size += len(rest)
        parts = [*parts, rest] if size <= max_bytes else []
    if size:
        yield b"".join(parts) if size <= max_bytes else None
