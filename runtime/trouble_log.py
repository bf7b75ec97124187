"""Logging of a lasting failure once, and not each time it occurs."""

import logging

BURST_ENDS_S = 60.0


class TroubleLog:
    """Logs a lasting failure once, until it is over or another failure takes its place."""

    def __init__(self, logger: logging.Logger, message: str) -> None:
        """Make a log for one kind of failure. ``message`` has one ``%s`` for the reported text."""
        self._logger = logger
        self._message = message
        self._logged: str | None = None
        self._last_s = 0.0

    def report(self, trouble: str) -> None:
        """Log the trouble at level ERROR unless it was the last one that was logged."""
        if trouble != self._logged:
            self._logger.error(self._message, trouble)
        self._logged = trouble

    def report_at(self, now_s: float, trouble: str) -> None:
        """Log a failure that comes in bursts; it is over once it has not been reported for a minute.

        ``now_s`` is of a monotonic clock."""
        if now_s - self._last_s > BURST_ENDS_S:
            self.clear()
        self._last_s = now_s
        self.report(trouble)

    def clear(self) -> None:
        """Note that the trouble is over, so that the next one is logged even if it is the same."""
        self._logged = None
