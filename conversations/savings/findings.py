"""The savings of a session: all rules in their order, and their claims added up by day."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from conversations.savings.breaks import blame_breaks, blame_pauses
from conversations.savings.caching import (
    blame_needless_hours,
    blame_never_cached,
    blame_never_read,
)
from conversations.savings.calls import SavingsCall, list_chains
from conversations.savings.carrying import (
    blame_repeated_results,
    blame_unused_tools,
    note_large_results,
)
from conversations.savings.contents import Contents
from conversations.savings.failures import blame_failures
from conversations.savings.kinds import Kind
from conversations.savings.ledger import Claim, Ledger

NO_CONTENTS: Mapping[int, Contents] = MappingProxyType({})
# The version of these rules. Stored findings have it.
METHOD = 1
MAX_CALLS = 20  # of a finding that are named: the most expensive ones
MAX_SUBJECT_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Costs of one day that could have been saved, for one kind of reason and one subject.

    ``cents`` is the cost of the tokens with a known price, ``unpriced`` the number of the others.
    ``top`` has the ids of the most expensive calls with their cents."""

    kind: Kind
    subject: str
    day: str
    calls: int
    tokens: int
    cents: Decimal
    unpriced: int
    top: Sequence[tuple[int, Decimal | None]]


def find_savings(
    calls: Sequence[SavingsCall], contents: Mapping[int, Contents] = NO_CONTENTS
) -> list[Finding]:
    """Return the findings about the calls of one session, by day.

    ``contents`` are those of its conversations, as far as they are known, by the id of the first call."""
    ledger = Ledger()
    chains = list_chains(calls)
    for chain in chains:
        blame_breaks(chain, ledger)
    for chain in chains:
        blame_pauses(chain, ledger)
    for chain in chains:
        blame_never_cached(chain, ledger)
    for chain in chains:
        blame_never_read(chain, calls, ledger)
    for chain in chains:
        blame_needless_hours(chain, ledger)
    blame_unused_tools(chains, contents, ledger)
    opened = [(chain, contents[chain[0].id]) for chain in chains if chain[0].id in contents]
    for chain, found in opened:
        blame_repeated_results(chain, found, ledger)
    blame_failures(calls, ledger)
    for chain, found in opened:
        note_large_results(chain, found, ledger)
    return sum_claims(ledger.claims)


def sum_claims(claims: Sequence[Claim]) -> list[Finding]:
    """Return the claims added up by kind, subject and day."""
    groups: defaultdict[tuple[str, str, str], list[Claim]] = defaultdict(list)
    for claim in claims:
        subject = claim.subject[:MAX_SUBJECT_CHARS]
        groups[claim.kind.name, subject, claim.call.day].append(claim)
    return [_sum(group, subject, day) for (_, subject, day), group in groups.items()]


def _sum(claims: Sequence[Claim], subject: str, day: str) -> Finding:
    of_call: dict[int, Decimal | None] = {}
    for claim in claims:
        before = of_call.get(claim.call.id, Decimal(0))
        known = None if claim.cents is None or before is None else before + claim.cents
        of_call[claim.call.id] = known
    top = sorted(of_call.items(), key=lambda each: (-(each[1] or 0), each[0]))
    return Finding(
        kind=claims[0].kind,
        subject=subject,
        day=day,
        calls=len(of_call),
        tokens=sum(claim.tokens for claim in claims),
        cents=sum((claim.cents for claim in claims if claim.cents is not None), Decimal(0)),
        unpriced=sum(claim.tokens for claim in claims if claim.cents is None),
        top=top[:MAX_CALLS],
    )
