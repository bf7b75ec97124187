"""The attributes of runs, for calls whose client sends none of its own.

They are looked up here and not in the proxy, whose calls would wait for it. Attributes in the
headers of a call take precedence, and an endpoint that keeps metadata only stores no attributes of
runs."""

import logging
import sqlite3
from pathlib import Path

from metering import attribution
from metering.attribution import Attribution
from runtime.trouble_log import TroubleLog
from store.control import run_attributes
from store.control.database import ControlDatabase
from store.spool.format import RequestHead

logger = logging.getLogger(__name__)

MAX_RUNS = 1_000


class RunAttributes:
    """The completion of heads of calls by the attributes of their runs in ``control.db``."""

    def __init__(self, control_path: Path) -> None:
        self._control_path = control_path
        self._control: ControlDatabase | None = None
        # Of runs that have some, which never change; the one used last stands at the end.
        self._known: dict[tuple[str, str], Attribution] = {}
        self._trouble = TroubleLog(logger, "Calls are recorded without the attributes of runs: %s")

    def complete(self, head: RequestHead) -> None:
        """Set those attributes of a call's head that its run has and the call has not. Never raises."""
        if head.run_id is None or head.metadata_only:
            return
        of_run = self._find(head.organization_id, head.run_id)
        if of_run is None:
            return
        own = attribution.keep_valid(head.attributed_user, head.project, head.tags)
        found = attribution.fill(own, of_run)
        head.attributed_user, head.project = found.user, found.project
        head.tags = attribution.write_tags(found.tags)

    def close(self) -> None:
        """Close ``control.db``."""
        if self._control is not None:
            self._control.close()
            self._control = None

    def _find(self, organization_id: str, run_id: str) -> Attribution | None:
        key = organization_id, run_id
        found = self._known.pop(key, None) or self._read(organization_id, run_id)
        if found is not None:
            self._known[key] = found
            if len(self._known) > MAX_RUNS:
                del self._known[next(iter(self._known))]
        return found

    def _read(self, organization_id: str, run_id: str) -> Attribution | None:
        try:
            if self._control is None:
                if not self._control_path.exists():
                    return None
                self._control = ControlDatabase(self._control_path)
            with self._control.reading() as db:
                found = run_attributes.find(db, organization_id, run_id)
        except (sqlite3.Error, OSError) as error:
            self._trouble.report(str(error))
            self.close()
            return None
        self._trouble.clear()
        return found
