"""Adding up of the histograms of past days, for the pages that show times."""

import sqlite3
from collections.abc import Callable

from recorder.background import BackgroundWork
from recorder.open_databases import OpenDatabases
from runtime import clock
from store.traces.sums import timing_groups

PAUSE_S = 60.0  # a page needs none of it, and is quicker with it


class TimingGroups(BackgroundWork):
    """The adding up of days of all organisations with calls, one day in a step."""

    def __init__(self, databases: OpenDatabases, clock_s: Callable[[], float]) -> None:
        """Add up in these databases. ``clock_s`` is a monotonic clock in seconds."""
        failure = "Times of %s cannot be added up now: %s"
        super().__init__(databases, clock_s, _add_up_next, failure, pause_s=PAUSE_S)


def _add_up_next(_organization_id: str, connection: sqlite3.Connection) -> bool:
    return timing_groups.add_up_next(connection, f"{clock.now().date()}")
