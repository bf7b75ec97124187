"""Cutting a request body where the next request of the same conversation will repeat it.

Nothing is parsed. The body is cut at a few fixed byte patterns, found at C speed. Joining the pieces
is the body whatever the cuts were, so a pattern that fires in the wrong place, or not at all, costs
space and never a byte. The patterns stand where agents' requests differ from turn to turn: before a
message, before and after what a moving cache marker changes, at the end of a message's text, before
the system prompt and the tools. Inside JSON strings quotes are escaped, so text that merely speaks
of ``{"role":`` is not cut.

Every cut has an ASCII byte on one of its sides. In UTF-8 such a byte is never part of a longer
character, so the pieces of a valid text are valid texts.

A long conversation has thousands of pieces, and a flat list of them would grow with every turn.
Hence a second level: a segment ends where the hashes of its last two pieces say so. The same run of
pieces then gives the same segments, in any request and at any offset, and an edit early on changes
only the segments next to it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

DIGEST_BYTES = 16
MAX_CUTS = 4000  # a hostile body can hold a million; what comes after the last cut is one piece
MAX_PIECES_PER_SEGMENT = 128
MEAN_PIECES_PER_SEGMENT = 32

# A pattern, and where the cut is from its start.
_PATTERNS = (
    (b'{"role":', 0),
    (b'{"content":', 0),
    (b',"cache_control":', 0),
    (b', "cache_control":', 0),
    (b'"}]}', 1),
    (b'"system":', 0),
    (b'"tools":', 0),
)


class Segment(NamedTuple):
    """A run of pieces and their digests. (A tuple, since a request has hundreds.)"""

    digest: bytes
    piece_digests: tuple[bytes, ...]
    pieces: tuple[bytes, ...]


def cut(body: bytes) -> list[bytes]:
    """The body in non-empty pieces, in order; an empty body has none."""
    if not body:
        return []
    places = {
        place + offset
        for pattern, offset in _PATTERNS
        for place in _find_all(body, pattern)
        if place + offset > 0
    }
    places_in_order = sorted(places)[:MAX_CUTS]
    return [body[start:end] for start, end in pairwise((0, *places_in_order, len(body)))]


def group(pieces: Sequence[bytes]) -> tuple[Segment, ...]:
    """The pieces in segments, in order."""
    digests = [digest(piece) for piece in pieces]
    segments: list[Segment] = []
    start = before = 0
    for end, piece_digest in enumerate(digests, 1):
        # Of two neighbours: else a common piece ('"}]},' is in every message) whose hash happens to
        # end a segment would end one at every message.
        ends_here = (piece_digest[-1] ^ before) % MEAN_PIECES_PER_SEGMENT == 0
        before = piece_digest[-1]
        if ends_here or end - start == MAX_PIECES_PER_SEGMENT or end == len(digests):
            run = tuple(digests[start:end])
            segments.append(Segment(digest(b"".join(run)), run, tuple(pieces[start:end])))
            start = end
    return tuple(segments)


def digest(data: bytes) -> bytes:
    """SHA-256, for which processors have instructions; half of it is plenty to tell texts apart."""
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def _find_all(body: bytes, pattern: bytes) -> Iterator[int]:
    # As many as there may be cuts: the first MAX_CUTS of all patterns are then among these.
    place = -1
    for _ in range(MAX_CUTS + 1):  # one more, since a cut at the very start is none
        place = body.find(pattern, place + 1)
        if place < 0:
            return
        yield place
