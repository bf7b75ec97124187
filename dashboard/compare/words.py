"""The words in which two texts differ, with some of the text around them."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from dashboard.compare.alignment import Effort, align
from metering.formats import format_count

MAX_CHARS = 200_000  # of a text that is compared; the rest is counted
CONTEXT_CHARS = 160
MIN_SHARED = 0.2  # of the words, or the texts are taken for two different ones
_WORD = re.compile(r"\w+|\s+|[^\w\s]")

type Kind = Literal["equal", "removed", "added", "folded"]


class Run(NamedTuple):
    """A stretch of text to be displayed. The text of a ``folded`` run is ours, about what is left out."""

    kind: Kind
    text: str


def compare_texts(before: str, after: str, effort: Effort) -> tuple[Run, ...]:
    """Return the differences of two texts as runs, found by lines first and by words within changed lines.

    Lines with less than ``MIN_SHARED`` of their words in common are not compared by words."""
    left_out = max(len(before), len(after)) - MAX_CHARS
    old, new = before[:MAX_CHARS], after[:MAX_CHARS]
    runs = list(_fold(_merge(_list_runs(old, new, effort))))
    if left_out > 0:
        runs.append(Run("folded", f"… {format_count(left_out)} more characters were not compared"))
    return tuple(runs)


def excerpt(kind: Kind, text: str, max_chars: int) -> tuple[Run, ...]:
    """Return the beginning of a text as a run, and a folded run if characters are left out."""
    runs = [Run(kind, text[:max_chars])]
    if len(text) > max_chars:
        runs.append(Run("folded", f"… {format_count(len(text) - max_chars)} more characters"))
    return tuple(runs)


def _list_runs(before: str, after: str, effort: Effort) -> Iterator[Run]:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for span in align(old, new, effort):
        lines = "".join(old[span.old : span.old_end]), "".join(new[span.new : span.new_end])
        if span.is_equal:
            yield Run("equal", lines[0])
        else:
            yield from _compare_words(_WORD.findall(lines[0]), _WORD.findall(lines[1]), effort)


def _compare_words(old: Sequence[str], new: Sequence[str], effort: Effort) -> Iterator[Run]:
    one, other = set(old), set(new)
    if len(one & other) < MIN_SHARED * max(len(one), len(other)):
        yield Run("removed", "".join(old))
        yield Run("added", "".join(new))
        return
    for span in align(old, new, effort):
        if span.is_equal:
            yield Run("equal", "".join(old[span.old : span.old_end]))
            continue
        yield Run("removed", "".join(old[span.old : span.old_end]))
        yield Run("added", "".join(new[span.new : span.new_end]))


def _merge(runs: Iterator[Run]) -> list[Run]:
    """Return the runs, with short equal runs between changes made part of the changes.

    White space and single characters are short. A changed phrase is easier to read than single
    characters that both texts happen to share."""
    merged: list[Run] = []
    removed = added = between = ""
    for run in runs:
        if run.kind == "removed":
            removed, added, between = removed + between + run.text, added + between, ""
        elif run.kind == "added":
            added, removed, between = added + between + run.text, removed + between, ""
        elif (removed or added) and not between and len(run.text.strip()) <= 1 and run.text != "\n":
            between = run.text
        else:
            merged += _take_change(removed, added)
            merged.append(Run("equal", between + run.text))
            removed = added = between = ""
    return [
        run for run in [*merged, *_take_change(removed, added), Run("equal", between)] if run.text
    ]


def _take_change(removed: str, added: str) -> list[Run]:
    return [Run("removed", removed), Run("added", added)]


def _fold(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs to be displayed; of a long equal run only both ends."""
    for n, (kind, text) in enumerate(runs):
        if kind != "equal":
            yield from excerpt(kind, text, MAX_CHARS)
            continue
        head = CONTEXT_CHARS if n else 0
        tail = CONTEXT_CHARS if n < len(runs) - 1 else 0
        left_out = len(text) - head - tail
        if left_out < CONTEXT_CHARS:
            yield Run("equal", text)
            continue
        if head:
            yield Run("equal", text[:head])
        yield Run("folded", f"… {format_count(left_out)} equal characters …")
        if tail:
            yield Run("equal", text[-tail:])
