"""Work that rows of ``control.db`` order, independent of new calls. They are read at least once a
second."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from recorder.background import RETRY_S, BackgroundWork, DoSome
from recorder.open_databases import OpenDatabases
from store.control.database import ControlDatabase

logger = logging.getLogger(__name__)

# Returns the organisations that have such work.
type ListOrganizations = Callable[[ControlDatabase], Sequence[str]]


class OrderedWork(BackgroundWork):
    """Ordered work of one kind, by organisation.

    It continues on a full disk, since removals make room."""

    waits_for_room = False

    def __init__(
        self,
        control_path: Path,
        databases: OpenDatabases,
        clock_s: Callable[[], float],
        list_organizations: ListOrganizations,
        do_some: DoSome,
        orders: str,
        failure: str,
        *,
        look_s: float,
        makes_databases: bool = False,
    ) -> None:
        """Look for orders every ``look_s`` seconds.

        ``orders`` is the noun for the orders in the log line if they cannot be read. For the other
        arguments see ``BackgroundWork``."""
        super().__init__(databases, clock_s, do_some, failure, makes_databases=makes_databases)
        self._control_path = control_path
        self._list_organizations = list_organizations
        self._orders = orders
        self._look_s = look_s
        self._look_at_s = 0.0
        self._opened: ControlDatabase | None = None

    def begin(self, organization_id: str) -> None:
        """Do nothing: orders do not come with new calls."""

    def run_step(self) -> bool:
        """Do one step of work. Return whether any is left. Never raises."""
        now_s = self._clock_s()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + self._look_s
            try:
                self._look()
            except (sqlite3.Error, OSError) as error:
                # What has begun goes on; the file may be locked for now.
                logger.warning("%s cannot be read now: %s", self._orders, error)
                self._look_at_s = now_s + RETRY_S
        return super().run_step()

    def close(self) -> None:
        """Close ``control.db``. Unfinished work continues after the next start."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _control(self) -> ControlDatabase:
        """Return ``control.db``, which is opened at its first use. Raises sqlite3.Error, OSError."""
        if self._opened is None:
            self._opened = ControlDatabase(self._control_path)
        return self._opened

    def _look(self) -> None:
        if self._opened is not None or self._control_path.exists():
            for organization_id in self._list_organizations(self._control):
                super().begin(organization_id)
