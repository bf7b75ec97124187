"""Findings in groups by kind: one row for each kind, one of which is open and lists its subjects."""

from collections.abc import Sequence
from dataclasses import dataclass

from conversations.savings.kinds import Kind
from dashboard.savings.findings import Shown

SUBJECTS = 3  # of an open kind, before the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The findings of one kind. If it is open, ``shown`` are those that it lists and ``rest`` the others."""

    kind: Kind
    findings: Sequence[Shown]
    is_open: bool
    shown: Sequence[Shown]
    rest: Sequence[Shown]

    @property
    def cents(self) -> float:
        return sum_cents(self.findings)

    @property
    def unpriced_tokens(self) -> int:
        return sum(each.group.unpriced_tokens for each in self.findings)

    @property
    def calls(self) -> int:
        return sum(each.group.calls for each in self.findings)

    @property
    def remedy(self) -> str:
        """Return how the cost of the most expensive finding could have been avoided."""
        return self.findings[0].remedy

    @property
    def has_subjects(self) -> bool:
        """Return whether findings of this kind have subjects that distinguish them."""
        return any(each.subject for each in self.findings)


def sum_cents(findings: Sequence[Shown]) -> float:
    """Return the sum of the costs of all findings in cents."""
    return sum(each.group.cents for each in findings)


def fold(findings: Sequence[Shown], opened: str | None, *, is_whole: bool) -> Sequence[Folded]:
    """Return the findings in groups by kind, the most expensive kind first.

    ``opened`` is the name of the open kind, None for the first one; ``is_whole``: it lists all its
    findings."""
    by_kind: dict[str, list[Shown]] = {}
    for each in findings:
        by_kind.setdefault(each.kind.name, []).append(each)
    ordered = sorted(by_kind.values(), key=lambda found: (-sum_cents(found), found[0].kind.name))
    kinds = []
    for place, found in enumerate(ordered):
        is_open = place == 0 if opened is None else found[0].kind.name == opened
        count = len(found) if is_whole else SUBJECTS
        kinds.append(
            Folded(
                kind=found[0].kind,
                findings=found,
                is_open=is_open,
                shown=found[:count] if is_open else (),
                rest=found[count:] if is_open else (),
            )
        )
    return kinds
