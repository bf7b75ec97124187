"""Pauses of organisations whose database cannot be written, longer after each failure."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause: its end by a monotonic clock, and its length, both in seconds."""

    until_s: float
    length_s: float


class Pauses:
    """The pauses by organisation id. ``clock_s`` is a monotonic clock in seconds."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._pauses: dict[str, Pause] = {}

    def __len__(self) -> int:
        return len(self._pauses)

    def is_waiting(self, owner: str) -> bool:
        """Return whether the pause of an organisation has not ended yet."""
        pause = self._pauses.get(owner)
        return pause is not None and self._clock_s() < pause.until_s

    def begin(self, owner: str, error: Exception) -> None:
        """Begin a pause of an organisation after an error. The first of a series is logged."""
        pause = self._pauses.get(owner)
        if pause is None:
            logger.error(
                "The traces of %s cannot be written (%s); its calls wait in the spool", owner, error
            )
        length_s = FIRST_PAUSE_S if pause is None else min(pause.length_s * 2, LONGEST_PAUSE_S)
        self._pauses[owner] = Pause(self._clock_s() + length_s, length_s)

    def end(self, owner: str) -> None:
        """End the pauses of an organisation; log it if there was one."""
        if self._pauses.pop(owner, None) is not None:
            logger.warning("The traces of %s can be written again", owner)
