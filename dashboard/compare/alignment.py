"""The alignment of two sequences: which items of one equal those of the other, in the same order.

``difflib`` takes cubic time at worst, and any program can send a conversation that makes it do so. Here
items that occur once in each sequence are matched first, as in patience diff, and ``difflib`` only
compares the stretches between them, if they are short. An ``Effort`` bounds the whole work; when it is
used up, the rest counts as different.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

MAX_PAIRS = 4_096  # of items that difflib compares with each other at a time


class Span(NamedTuple):
    """A stretch of both sequences, from ``old`` to ``old_end`` and from ``new`` to ``new_end``."""

    is_equal: bool
    old: int
    old_end: int
    new: int
    new_end: int


@dataclass(slots=True)
class Effort:
    """The number of steps that comparing may still take; a second has some 10 million."""

    left: int = 5_000_000

    def spend(self, steps: int) -> bool:
        """Deduct ``steps`` and return whether as many were left."""
        self.left -= steps
        return self.left >= 0


def align[T: Hashable](old: Sequence[T], new: Sequence[T], effort: Effort) -> list[Span]:
    """Return both sequences as spans in order, alternating between equal and different ones."""
    spans: list[Span] = []
    at_old = at_new = 0
    matches = sorted(_match(old, new, effort))
    for start_old, start_new, length in [*matches, (len(old), len(new), 0)]:
        if start_old > at_old or start_new > at_new:
            spans.append(Span(False, at_old, start_old, at_new, start_new))
        at_old, at_new = start_old + length, start_new + length
        if length and spans and spans[-1].is_equal:
            spans[-1] = spans[-1]._replace(old_end=at_old, new_end=at_new)
        elif length:
            spans.append(Span(True, start_old, at_old, start_new, at_new))
    return spans


def _match[T: Hashable](
    old: Sequence[T], new: Sequence[T], effort: Effort
) -> list[tuple[int, int, int]]:
    """Return the equal stretches as (start in ``old``, start in ``new``, length), unordered."""
    found = []
    open_ = [(0, len(old), 0, len(new))]
    while open_:
        i, i_end, j, j_end = open_.pop()
        if not effort.spend(i_end - i + j_end - j):
            break
        start = i, j
        while i < i_end and j < j_end and old[i] == new[j]:
            i, j = i + 1, j + 1
        found.append((*start, i - start[0]))
        end = i_end
        while i < i_end and j < j_end and old[i_end - 1] == new[j_end - 1]:
            i_end, j_end = i_end - 1, j_end - 1
        found.append((i_end, j_end, end - i_end))
        pairs = (i_end - i) * (j_end - j)
        if pairs > MAX_PAIRS:
            open_ += _split(old, new, (i, i_end, j, j_end))
        elif pairs and effort.spend(4 * pairs):
            matcher = SequenceMatcher(None, old[i:i_end], new[j:j_end], autojunk=False)
            found += [(i + a, j + b, size) for a, b, size in matcher.get_matching_blocks()]
    return [match for match in found if match[2]]


def _split[T: Hashable](
    old: Sequence[T], new: Sequence[T], within: tuple[int, int, int, int]
) -> list[tuple[int, int, int, int]]:
    """Return the parts between items that occur once in both sequences, [] if there are no such items.

    ``within`` and each part are (start in ``old``, end, start in ``new``, end)."""
    i, i_end, j, j_end = within
    in_old, in_new = Counter(old[i:i_end]), Counter(new[j:j_end])
    places = {item: n for n, item in enumerate(new[j:j_end], j) if in_new[item] == 1}
    anchors = [
        (n, places[item])
        for n, item in enumerate(old[i:i_end], i)
        if in_old[item] == 1 and item in places
    ]
    borders = [*_longest_rise(anchors), (i_end, j_end)]
    if len(borders) == 1:
        return []
    parts = [(i, borders[0][0], j, borders[0][1])]
    for (start, other), (end, other_end) in pairwise(borders):
        parts.append((start, end, other, other_end))
    return parts


def _longest_rise(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of ``pairs`` in which both numbers increase."""
    tops: list[int] = []  # the smallest second place with which a rise of this length ends
    at: list[int] = []
    before: list[int] = []
    for n, (_, place) in enumerate(pairs):
        length = bisect_left(tops, place)
        before.append(at[length - 1] if length else -1)
        if length == len(tops):
            tops.append(place)
            at.append(n)
        else:
            tops[length], at[length] = place, n
    rise = []
    n = at[-1] if at else -1
    while n >= 0:
        rise.append(pairs[n])
        n = before[n]
    return rise[::-1]
