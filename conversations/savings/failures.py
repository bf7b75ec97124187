"""The rule about calls that failed and were billed."""

from collections.abc import Sequence

from conversations.savings.calls import SavingsCall
from conversations.savings.kinds import FAILED_CALL
from conversations.savings.ledger import Ledger

# A client that disconnects, as when a person presses Esc, got what it wanted.
FAILED = frozenset(
    {
        "upstream_error",
        "upstream_interrupted",
        "upstream_timeout",
        "upstream_unreachable",
        "proxy_restarted",
    }
)


def blame_failures(calls: Sequence[SavingsCall], ledger: Ledger) -> None:
    """Enter in the ledger the remaining cost of calls that failed."""
    for call in calls:
        if call.outcome in FAILED:
            tokens, cents = ledger.take_all(call)
            if cents is None or cents > 0:
                ledger.note(FAILED_CALL, call, tokens, cents, call.outcome)
