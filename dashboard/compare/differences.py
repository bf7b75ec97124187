"""The differences between two lists of items: added, removed, changed, moved and reordered ones.

Items are compared by their digests, and words only if those differ. Long stretches of equal items are
one line.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dashboard.compare.alignment import Effort, Span, align
from dashboard.compare.parts import Item, Part
from dashboard.compare.words import Run, compare_texts, excerpt
from metering.formats import format_count

MAX_EXCERPT_CHARS, MAX_LINE_CHARS, MAX_LINES = 4_000, 120, 400
MAX_SHOWN = 600  # differences of a section; of the others only the number is told
_MIN_LIKENESS = 0.4
_LIKENESS_CHARS = 2_000
_MAX_PAIRED = 900  # likenesses that are computed of one stretch

type Kind = Literal["changed", "added", "removed", "moved", "reordered", "equal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A block within a difference. ``runs`` are its text with the changes."""

    kind: Kind
    label: str
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One line of the comparison: an item that differs, or ``count`` equal items with a line for each."""

    kind: Kind
    name: str
    note: str = ""
    pieces: tuple[Piece, ...] = ()
    count: int = 1
    lines: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Comparison:
    """Computes the differences of two lists. ``nouns`` name one item and several ("tool", "tools");
    ``by_name``: items with the same match key are the same item at any place."""

    old: Sequence[Item]
    new: Sequence[Item]
    nouns: tuple[str, str]
    by_name: bool
    effort: Effort
    compared: int = 0

    def list(self) -> Iterator[Difference]:
        spans = align([item.key for item in self.old], [item.key for item in self.new], self.effort)
        partners = self._find_partners(spans)
        for span in spans:
            if span.is_equal:
                yield from self._list_equal(span)
            else:
                yield from self._list_changes(span, partners)

    def _find_partners(self, spans: Sequence[Span]) -> Mapping[int, int]:
        """Return which items were moved: positions in the new list with the positions in the old one.

        An item was moved if it is the same elsewhere, or with ``by_name`` has the same name."""
        differing = [span for span in spans if not span.is_equal]
        old = [n for span in differing for n in range(span.old, span.old_end)]
        new = [n for span in differing for n in range(span.new, span.new_end)]
        found = _match([(n, self.old[n].key) for n in old], [(n, self.new[n].key) for n in new])
        if self.by_name:
            taken = set(found.values())
            found |= _match(
                [(n, self.old[n].match_key) for n in old if n not in taken],
                [(n, self.new[n].match_key) for n in new if n not in found],
            )
        return found

    def _list_equal(self, span: Span) -> Iterator[Difference]:
        start = 0
        length = span.new_end - span.new
        for n in range(length + 1):
            is_end = n == length
            old, new = (None, None) if is_end else (self.old[span.old + n], self.new[span.new + n])
            if old is not None and new is not None and old.order == new.order:
                continue
            yield from self._fold(span.old + start, span.new + start, n - start)
            start = n + 1
            if old is not None and new is not None:
                yield self._describe_order(old, new)

    def _fold(self, old: int, new: int, count: int) -> Iterator[Difference]:
        if not count:
            return
        lines = [
            (_name_both(self.old[old + n], self.new[new + n]), _summarize(self.new[new + n]))
            for n in range(min(count, MAX_LINES))
        ]
        if count > MAX_LINES:
            lines.append((f"and {format_count(count - MAX_LINES)} more", ""))
        noun = self.nouns[0] if count == 1 else self.nouns[1]
        yield Difference(
            kind="equal",
            name=f"{format_count(count)} {noun} equal",
            count=count,
            lines=tuple(lines),
        )

    def _list_changes(self, span: Span, elsewhere: Mapping[int, int]) -> Iterator[Difference]:
        gone = set(elsewhere.values())
        old = [n for n in range(span.old, span.old_end) if n not in gone]
        new = [n for n in range(span.new, span.new_end) if n not in elsewhere]
        partners = self._pair(old, new)
        waiting = iter(old)
        for n in range(span.new, span.new_end):
            if n in elsewhere:
                one, other = self.old[elsewhere[n]], self.new[n]
                is_same = one.key == other.key
                yield (self._describe_move if is_same else self._describe_change)(one, other)
            elif n in partners:
                for removed in waiting:
                    if removed == partners[n]:
                        break
                    yield _describe_one("removed", self.old[removed])
                yield self._describe_change(self.old[partners[n]], self.new[n])
            else:
                yield _describe_one("added", self.new[n])
        for removed in waiting:
            yield _describe_one("removed", self.old[removed])

    def _pair(self, old: Sequence[int], new: Sequence[int]) -> Mapping[int, int]:
        """Return the changed items: positions in the new list with those of their older versions. Order is
        kept."""
        if len(old) == len(new) and all(
            self.old[i].match_key == self.new[j].match_key for i, j in zip(old, new, strict=True)
        ):
            return dict(zip(new, old, strict=True))
        pairs: dict[int, int] = {}
        first, left = 0, _MAX_PAIRED
        for j in new:
            open_ = range(first, min(len(old), first + left))
            left -= len(open_)
            likeness = {n: _compare_items(self.old[old[n]], self.new[j]) for n in open_}
            best = max(likeness, key=lambda n: likeness[n], default=None)
            if best is not None and likeness[best] >= _MIN_LIKENESS:
                pairs[j] = old[best]
                first = best + 1
        return pairs

    def _describe_change(self, old: Item, new: Item) -> Difference:
        self.compared += 1
        pieces = self._list_pieces(old, new) if self.compared <= MAX_SHOWN else ()
        return Difference(kind="changed", name=_name_both(old, new), pieces=tuple(pieces))

    def _list_pieces(self, old: Item, new: Item) -> Iterator[Piece]:
        before, after = old.parts, new.parts
        keys = [[(part.label, part.digest) for part in parts] for parts in (before, after)]
        for span in align(keys[0], keys[1], self.effort):
            if span.is_equal:
                noun = "block" if span.new_end - span.new == 1 else "blocks"
                yield Piece(kind="equal", label=f"{span.new_end - span.new} {noun} equal")
                continue
            pairs = min(span.old_end - span.old, span.new_end - span.new)
            for n in range(pairs):
                yield from self._compare_parts(before[span.old + n], after[span.new + n])
            for part in before[span.old + pairs : span.old_end]:
                yield _show("removed", part)
            for part in after[span.new + pairs : span.new_end]:
                yield _show("added", part)

    def _compare_parts(self, old: Part, new: Part) -> Iterator[Piece]:
        if old.label != new.label:
            yield _show("removed", old)
            yield _show("added", new)
            return
        runs = compare_texts(old.text, new.text, self.effort)
        note = (
            "" if any(run.kind in ("removed", "added") for run in runs) else ": fields without text"
        )
        yield Piece(kind="changed", label=f"{new.label}{note}", runs=runs)

    def _describe_order(self, old: Item, new: Item) -> Difference:
        return Difference(
            kind="reordered",
            name=_name_both(old, new),
            note="The same values with the keys in another order, which the cache takes for a change.",
        )

    def _describe_move(self, old: Item, new: Item) -> Difference:
        return Difference(
            kind="moved",
            name=new.name,
            note=f"It was {old.name[0].lower()}{old.name[1:]} before."
            if old.name != new.name
            else "It stands elsewhere among the others.",
            lines=(("", _summarize(new)),),
        )


def compare_lists(
    old: Sequence[Item],
    new: Sequence[Item],
    nouns: tuple[str, str],
    effort: Effort,
    *,
    by_name: bool = False,
) -> tuple[Difference, ...]:
    """Return the differences of two lists, in their order, with each equal stretch as one line.

    ``nouns`` name one item and several. ``by_name``: items with the same match key are the same at any
    place."""
    return tuple(_Comparison(old, new, nouns, by_name, effort).list())


def _match(old: Sequence[tuple[int, object]], new: Sequence[tuple[int, object]]) -> dict[int, int]:
    """Return positions of values in the new list with positions of equal values in the old one."""
    open_: dict[object, deque[int]] = defaultdict(deque)
    for n, value in old:
        open_[value].append(n)
    return {n: open_[value].popleft() for n, value in new if open_.get(value)}


def _describe_one(kind: Kind, item: Item) -> Difference:
    return Difference(
        kind=kind, name=item.name, pieces=tuple(_show(kind, part) for part in item.parts)
    )


def _show(kind: Kind, part: Part) -> Piece:
    shown: Literal["removed", "added"] = "removed" if kind == "removed" else "added"
    return Piece(kind=kind, label=part.label, runs=excerpt(shown, part.text, MAX_EXCERPT_CHARS))


def _name_both(old: Item, new: Item) -> str:
    return (
        new.name
        if old.name == new.name
        else f"{new.name} (before: {old.name.partition(',')[0].lower()})"
    )


def _summarize(item: Item) -> str:
    """Return the first words of an item on one line."""
    for part in item.parts:
        if text := " ".join(part.text[: 4 * MAX_LINE_CHARS].split()):
            label = f"{part.label}: " if part.label and part.label != "Text" else ""
            more = "…" if len(text) > MAX_LINE_CHARS else ""
            return f"{label}{text[:MAX_LINE_CHARS]}{more}"
    return ""


def _compare_items(old: Item, new: Item) -> float:
    """Return the similarity of two items, from 0 to 1: the share of words that both have."""
    if old.match_key != new.match_key:
        return 0.0
    if {part.digest for part in old.parts} & {part.digest for part in new.parts}:
        return 1.0
    one, other = (
        set(" ".join(part.text[:_LIKENESS_CHARS] for part in item.parts[:4]).split())
        for item in (old, new)
    )
    return len(one & other) / max(len(one | other), 1)
