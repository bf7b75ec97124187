"""Cutting a request body into pieces that the next request of the same conversation will repeat.

Nothing is parsed. The body is cut at a few fixed byte patterns, found at C speed. The joined pieces are
always the exact body, so a pattern that is found in the wrong place, or not at all, costs space and
never a byte. The patterns occur where agents' requests differ from turn to turn: before a message,
before and after a cache breakpoint, which moves, at the end of a message's text, before the system
prompt and the tools. Inside JSON strings quotes are escaped, so text that contains ``{"role":`` is not
cut.

Every cut has an ASCII byte on one of its sides. In UTF-8 such a byte is never part of a longer
character, so the pieces of a valid text are valid texts.

A long conversation has thousands of pieces, and a flat list of them would grow with every turn.
Hence a second level: runs of pieces are segments, and the hashes of two neighbouring pieces decide
whether a segment ends there. The same run of pieces then has the same segments, in any request and at
any offset, and a change early in a conversation changes only the segments next to it.

The body is cut from left to right, with a look a few bytes ahead. Two bodies that begin with the same
bytes therefore begin with the same pieces and segments, and those of one body are reused for the other:
see ``begin_alike``.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

DIGEST_BYTES = 16
MAX_CUTS = 4000  # a hostile body can hold a million; what comes after the last cut is one piece
MAX_PIECES_PER_SEGMENT = 128
MEAN_PIECES_PER_SEGMENT = 32

# The cut is before {"role":  {"content":  ,"cache_control":  , "cache_control":  "system":  "tools":
# and after the first byte of "}]}. One search for what they share, a quote, and then a look at what
# stands before it take a third of the time of a search for each. No two of these can overlap. The search
# itself looks back, so that a token that is no cut, repeated for megabytes, costs no Python.
_TOKENS = re.compile(
    rb'"(?:'
    rb'role":(?<={"role":)|content":(?<={"content":)|'
    rb'cache_control":(?:(?<=,"cache_control":)|(?<=, "cache_control":))|'
    rb'system":|tools":|}]})'
)
_LOOK_AHEAD_BYTES = len(b', "cache_control":')


class Segment(NamedTuple):
    """A run of pieces: their digests, and the end of each in the body."""

    digest: bytes
    start: int
    piece_digests: tuple[bytes, ...]
    piece_ends: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.piece_ends[-1]

    @property
    def spans(self) -> Iterator[tuple[int, int]]:
        """Return (start, end) of each piece in the body."""
        return pairwise((self.start, *self.piece_ends))


class Beginning(NamedTuple):
    """The part of a body that is already cut: its first segments, and the first pieces of the next
    segment."""

    segments: Sequence[Segment] = ()
    piece_digests: Sequence[bytes] = ()
    piece_ends: Sequence[int] = ()


def split(body: bytes, beginning: Beginning = Beginning()) -> list[Segment]:  # noqa: B008 - immutable
    """Return the segments of a body, in order; an empty body has none. ``beginning`` is already cut."""
    segments = list(beginning.segments)
    start = segments[-1].end if segments else 0
    ends = [*beginning.piece_ends]
    ends += _find_ends(
        body,
        after=ends[-1] if ends else start,
        at_most=MAX_CUTS - len(ends) - sum(len(each.piece_ends) for each in segments),
    )
    digests = [*beginning.piece_digests]
    digests += [digest(body[a:b]) for a, b in pairwise((start, *ends)[len(digests) :])]
    before = segments[-1].piece_digests[-1] if segments else None
    first = 0
    for last in _find_runs(digests, before):
        run = tuple(digests[first:last])
        segments.append(Segment(digest(b"".join(run)), start, run, tuple(ends[first:last])))
        start, first = ends[last - 1], last
    return segments


def begin_alike(segments: Sequence[Segment], shared: int) -> Beginning:
    """Return the cuts that a body has in common with another one.

    The first ``shared`` bytes of both are the same, and ``segments`` are those of the other body."""
    # Whether there is a cut depends on the bytes after it, so these must be shared too. That leaves
    # out the other body's end, which is no cut.
    certain = shared - _LOOK_AHEAD_BYTES
    whole = 0
    while whole < len(segments) and segments[whole].end <= certain:
        whole += 1
    if whole == len(segments):
        return Beginning(segments)
    ends = [end for end in segments[whole].piece_ends if end <= certain]
    return Beginning(segments[:whole], segments[whole].piece_digests[: len(ends)], ends)


def digest(data: bytes) -> bytes:
    """Return the first half of the SHA-256, which is enough to distinguish texts.

    Processors have instructions for SHA-256."""
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def _find_ends(body: bytes, after: int, at_most: int) -> list[int]:
    """Return the ends of up to ``at_most`` cuts and of the body, behind position ``after``."""
    ends: list[int] = []
    for found in _TOKENS.finditer(body, after):
        if len(ends) == at_most:
            break
        place = _find_cut(body, found)
        if place > after:
            ends.append(place)
    if after < len(body):
        ends.append(len(body))
    return ends


def _find_runs(digests: Sequence[bytes], before: bytes | None) -> Iterator[int]:
    """Yield for each segment the number of pieces up to its end.

    ``before`` is the digest of the piece before the first one."""
    first, last_byte = 0, before[-1] if before else 0
    for count, each in enumerate(digests, 1):
        # The hashes of two neighbours, because a common piece ('"}]},' is in every message) whose
        # hash happens to end a segment would otherwise end one at every message.
        byte = each[-1]
        ends_here = not (byte ^ last_byte) % MEAN_PIECES_PER_SEGMENT
        last_byte = byte
        if ends_here or count - first == MAX_PIECES_PER_SEGMENT:
            yield count
            first = count
    if first < len(digests):
        yield len(digests)


def _find_cut(body: bytes, found: re.Match[bytes]) -> int:
    """Return the position at which to cut for a token that was found."""
    place, token = found.start(), found[0]
    if token == b'"}]}':
        return place + 1
    if token in (b'"system":', b'"tools":'):
        return place
    return place - 2 if body[place - 1 : place] == b" " else place - 1
