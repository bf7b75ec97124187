"""Failures of the spool, which never reach a client: logged, counted, and shown on ``/healthz``."""

import logging
from dataclasses import dataclass

from runtime.worker_board import Shared, WorkerBoard

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SpoolTroubles:
    """Counts failures of the spool since this proxy started. ``current`` describes a lasting one, or is
    None."""

    calls_not_kept: int = 0
    responses_not_kept: int = 0
    request_bodies_not_kept: int = 0
    current: str | None = None

    def report(self, trouble: str) -> None:
        """Set the current failure; log it only if there was none before."""
        if self.current is None:
            logger.error("USAGE LOGGING IS IMPAIRED: %s. Calls still go through.", trouble)
        self.current = trouble

    def clear(self) -> None:
        """Note that the failure is over, and log that if there was one."""
        if self.current is not None:
            logger.warning("Usage logging works again after: %s", self.current)
            self.current = None

    def publish(self, board: WorkerBoard) -> None:
        """Write the current failure to the board, since any worker may be asked for ``/healthz``."""
        board.put(Shared.CALLS_NOT_KEPT, self.calls_not_kept)
        board.put(Shared.RESPONSES_NOT_KEPT, self.responses_not_kept)
        board.put(Shared.REQUEST_BODIES_NOT_KEPT, self.request_bodies_not_kept)
        board.put_trouble(self.current)
