"""Histograms of times and speeds, from which percentiles of any set of calls are found.

Buckets are spaced evenly on a logarithmic scale, eight to an octave: each is 9 % wider than the one before,
so a percentile is at most ``RESOLUTION`` from that of the values. A histogram is one integer, with 32 bits
for the count of each bucket; so the histogram of two sets is the sum of theirs.
"""

import math
import struct
from collections import Counter
from collections.abc import Iterable

RESOLUTION = 0.045
_PER_OCTAVE = 8
_LOWEST = 2.0**-6  # what is less is in the first bucket
_BUCKETS = _PER_OCTAVE * 30  # up to 2**24: of milliseconds, four hours
_BITS = 32


def make(values: Iterable[float]) -> int:
    """Return the histogram of values."""
    counts = Counter(map(_find_bucket, values))
    return sum(number << _BITS * bucket for bucket, number in counts.items())


def _find_bucket(value: float) -> int:
    if value <= _LOWEST:
        return 0
    return min(int(math.log2(value / _LOWEST) * _PER_OCTAVE), _BUCKETS - 1)


def pack(histogram: int) -> bytes:
    """Return a histogram in stored form, b"" if it is empty.

    The first byte is the number of the first bucket that is not empty. The counts of the buckets from
    there on follow, each in 4 bytes, little-endian."""
    if not histogram:
        return b""
    first = ((histogram & -histogram).bit_length() - 1) // _BITS
    counts = histogram >> _BITS * first
    return bytes([first]) + counts.to_bytes(-(-counts.bit_length() // _BITS) * 4, "little")


def unpack(stored: bytes) -> int:
    """Return the histogram whose stored form is ``stored``."""
    return int.from_bytes(stored[1:], "little") << _BITS * stored[0] if stored else 0


def add_packed(sums: list[int], stored: Iterable[bytes]) -> None:
    """Add each stored histogram to the one at the same place of ``sums``."""
    for place, each in enumerate(stored):
        if each:
            sums[place] += int.from_bytes(each, "little") >> 8 << _BITS * each[0]


def count(histogram: int) -> int:
    """Return the number of values in a histogram."""
    return sum(_list_counts(histogram))


def find_percentile(histogram: int, share: float) -> float | None:
    """Return the value below which ``share`` (0 to 1) of the values are, or None without values.

    The result is the middle of the bucket with that value."""
    counts = _list_counts(histogram)
    rank = math.ceil(share * sum(counts))
    for bucket, each in enumerate(counts):
        rank -= each
        if rank <= 0 and each:
            return _LOWEST * math.exp2((bucket + 0.5) / _PER_OCTAVE)
    return None


def _list_counts(histogram: int) -> tuple[int, ...]:
    number = -(-histogram.bit_length() // _BITS)
    return struct.unpack(f"<{number}I", histogram.to_bytes(4 * number, "little"))
