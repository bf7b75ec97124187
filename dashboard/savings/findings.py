"""Findings as pages and JSON show them: the most expensive first, small ones only counted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conversations.savings.kinds import KINDS, MIN_CENTS, MIN_TOKENS, Kind
from store.traces.savings.savings_reader import BlamedCall, Group, SavingsReader

MAX_SHOWN = 50
SUBJECTS = {
    "cache_break": {
        "system": "the system prompt changed",
        "tools": "the tools changed",
        "messages": "an earlier message changed",
        "model": "another model",
        "order": "the order of keys changed",
        "marker": "a cache marker moved or is missing",
        "unknown": "unknown",
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A finding that has a line, with the calls of its largest session, and the client of that session."""

    kind: Kind
    group: Group
    calls: Sequence[BlamedCall]
    client: str | None = None

    @property
    def subject(self) -> str:
        """Return the subject of the finding in words, such as "the tools changed"."""
        return SUBJECTS.get(self.kind.name, {}).get(self.group.subject, self.group.subject)

    @property
    def remedy(self) -> str:
        """Return how the cost of the finding could have been avoided."""
        return self.kind.find_remedy(self.group.subject, self.client)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All findings of a period or session. ``total_cents`` is the sum of all possible savings, including
    the ``smaller`` ones, which have no line of their own. ``expensive`` are findings that could not have
    been saved."""

    savings: Sequence[Shown] = ()
    expensive: Sequence[Shown] = ()
    total_cents: float = 0.0
    unpriced_tokens: int = 0
    smaller: int = 0
    smaller_cents: float = 0.0

    @property
    def is_empty(self) -> bool:
        return not self.savings and not self.smaller and not self.expensive


def make_findings(groups: Iterable[Group], reader: SavingsReader) -> Findings:
    """Return the findings of ``groups``, the most expensive first. Those that have a line have their
    calls."""
    known = sorted(
        (group for group in groups if group.finding in KINDS),
        key=lambda group: (-group.cents, -group.tokens, group.finding, group.subject),
    )
    large = [group for group in known if _is_large(group)][:MAX_SHOWN]
    shown = [
        Shown(
            kind=KINDS[group.finding],
            group=group,
            calls=reader.list_calls(group),
            client=reader.find_client(group.largest_session),
        )
        for group in large
    ]
    savings = [group for group in known if KINDS[group.finding].is_saving]
    has_line = {(group.finding, group.subject) for group in large}
    small = [group for group in savings if (group.finding, group.subject) not in has_line]
    return Findings(
        savings=[each for each in shown if each.kind.is_saving],
        expensive=[each for each in shown if not each.kind.is_saving],
        total_cents=sum(group.cents for group in savings),
        unpriced_tokens=sum(group.unpriced_tokens for group in savings),
        smaller=len(small),
        smaller_cents=sum(group.cents for group in small),
    )


def _is_large(group: Group) -> bool:
    """Return whether a finding has a line of its own, by cost and tokens, or without price by tokens."""
    if group.tokens < MIN_TOKENS:
        return False
    return group.cents >= MIN_CENTS or group.unpriced_tokens >= MIN_TOKENS
