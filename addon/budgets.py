"""The budgets: refusing billed requests of an endpoint or organisation whose budget is used up.

The recorder adds up costs and writes the used-up budgets to a file (``store.budget_file``). Requests
that upstream would not bill (``upstream_paths``), such as counting tokens and reading, are never
refused."""

import math
import time
from collections.abc import Callable

from addon import errors
from addon.errors import Refusal
from store.budget_file import BudgetFile, ReachedBudget
from store.control.database import ProxyEndpoint

type RejectionCounter = Callable[[ProxyEndpoint], None]


class Budgets:
    """The budgets that are used up, read from a file.

    ``count_rejection`` is called for each request that is refused; ``clock_s`` returns Unix time in
    seconds."""

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
        """Read the file again if it has changed."""
        version = self._file.identify()
        if version != self._version:
            self._version = version
            self._reached = {each.subject_id: each for each in self._file.read()}

    def admit(self, endpoint: ProxyEndpoint) -> Refusal | None:
        """Return the refusal of a billed request if a budget is used up, or None."""
        if not self._reached:
            return None
        now_s = self._clock_s()
        reached = self._find(endpoint.id, now_s) or self._find(endpoint.organization_id, now_s)
        if reached is None:
            return None
        self._count_rejection(endpoint)
        return errors.budget_reached(reached, math.ceil(reached.resets_s - now_s))

    def _find(self, subject_id: str, now_s: float) -> ReachedBudget | None:
        """Return the used-up budget of an endpoint or organisation for a period with ``now_s``, or None."""
        reached = self._reached.get(subject_id)
        if reached is None or not reached.starts_s <= now_s < reached.resets_s:
            return None
        return reached
