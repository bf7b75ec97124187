"""The budgets: what is refused of an endpoint or organisation whose budget is used up.

The recorder adds up what calls cost and writes which budgets are reached (``store.budget_file``). Refused is
what upstream would bill. Counting tokens is never refused, and neither is reading models, files or batches.
"""

import math
import time
from collections.abc import Callable
from urllib.parse import unquote

from addon import errors
from addon.errors import Refusal
from addon.routing import Destination
from store.budget_file import BudgetFile, ReachedBudget
from store.control.database import ProxyEndpoint

# Paths besides messages that upstream bills, when something is posted there.
_BILLED_PATHS = frozenset({"/v1/messages/batches", "/v1/complete"})

type RejectionCounter = Callable[[ProxyEndpoint], None]


class Budgets:
    """Knows the budgets that are used up. ``count_rejection`` is told of each request that is refused;
    ``clock_s`` is the clock of the machine, whose days the budgets have."""

    def __init__(
        self,
        file: BudgetFile,
        count_rejection: RejectionCounter,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._file = file
        self._count_rejection = count_rejection
        self._clock_s = clock_s
        self._version: tuple[int, int] | None = None
        self._reached: dict[str, ReachedBudget] = {}
        self.refresh()

    def refresh(self, _now_s: float = 0.0) -> None:
        """Read the file if it is another one by now."""
        version = self._file.identify()
        if version != self._version:
            self._version = version
            self._reached = {each.subject_id: each for each in self._file.read()}

    def admit(
        self, destination: Destination, method: str, target: str, endpoint: ProxyEndpoint
    ) -> Refusal | None:
        """Return why a request is refused, or None."""
        if not self._reached:
            return None
        now_s = self._clock_s()
        reached = self._find(endpoint.id, now_s) or self._find(endpoint.organization_id, now_s)
        if reached is None or not _is_billed(destination, method, target):
            return None
        self._count_rejection(endpoint)
        return errors.budget_reached(reached, math.ceil(reached.resets_s - now_s))

    def _find(self, subject_id: str, now_s: float) -> ReachedBudget | None:
        """Return the budget of a subject that is used up in the period of this instant, or None."""
        reached = self._reached.get(subject_id)
        if reached is None or not reached.starts_s <= now_s < reached.resets_s:
            return None
        return reached


def _is_billed(destination: Destination, method: str, target: str) -> bool:
    if destination is Destination.MESSAGES:
        return True
    return (
        destination is Destination.OTHER
        and method == "POST"
        and unquote(target.partition("?")[0]) in _BILLED_PATHS
    )
