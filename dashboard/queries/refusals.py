"""Temporary refusal of organisations whose queries had to be killed repeatedly."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_KILLS, WITHIN_S, REFUSED_S = 3, 60.0, 60.0
_MAX_REMEMBERED = 1_000


@dataclass(slots=True)
class Refusals:
    """The kills and refusals of organisations. ``clock_s`` is a monotonic clock."""

    clock_s: Callable[[], float]
    _kills_s: dict[str, deque[float]] = field(default_factory=dict)
    _refused_until_s: dict[str, float] = field(default_factory=dict)

    def note_kill(self, organization_id: str) -> None:
        """Count a query process that had to be killed for a query of this organisation."""
        now_s = self.clock_s()
        self._forget(now_s)
        kills_s = self._kills_s.setdefault(organization_id, deque(maxlen=MAX_KILLS))
        kills_s.append(now_s)
        if len(kills_s) == MAX_KILLS and now_s - kills_s[0] <= WITHIN_S:
            self._refused_until_s[organization_id] = now_s + REFUSED_S
            del self._kills_s[organization_id]

    def find_wait(self, organization_id: str) -> int:
        """Return for how many more seconds this organisation is refused, 0 if it is not."""
        left_s = self._refused_until_s.get(organization_id, 0.0) - self.clock_s()
        return math.ceil(max(left_s, 0.0))

    def _forget(self, now_s: float) -> None:
        if len(self._kills_s) + len(self._refused_until_s) < _MAX_REMEMBERED:
            return
        for organization_id, kills_s in list(self._kills_s.items()):
            if kills_s[-1] < now_s - WITHIN_S:
                del self._kills_s[organization_id]
        for organization_id, until_s in list(self._refused_until_s.items()):
            if until_s < now_s:
                del self._refused_until_s[organization_id]
