"""Removal by the rules of retention, once a day, and by orders to erase calls.

The recorder does this while it would otherwise wait, in steps of some 20 ms, and while calls wait
one step each second. Orders come first. A database that cannot be written waits alone."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from recorder.open_databases import OpenDatabases
from recorder.ordered_work import OrderedWork
from runtime import clock
from store.control import audit, erasures, retention
from store.control.database import ControlDatabase
from store.erasure_work import ErasureWork
from store.traces.steps import Steps

LOOK_S = 1.0
_END = object()


class Removals(OrderedWork):
    """The removal of calls, one organisation after the other."""

    def __init__(
        self,
        control_path: Path,
        databases: OpenDatabases,
        clock_s: Callable[[], float],
        erasures_here: ErasureWork,
    ) -> None:
        """Read rules and orders from ``control.db``.

        ``clock_s`` is a monotonic clock in seconds. ``erasures_here`` carries out orders on this machine."""
        super().__init__(
            control_path,
            databases,
            clock_s,
            self._list_with_work,
            self._remove_some,
            "What is to be removed",
            "Calls of %s cannot be removed now: %s",
            look_s=LOOK_S,
            makes_databases=erasures_here.makes_databases,
        )
        self._erasures = erasures_here
        self._steps: dict[str, Steps[None]] = {}  # by organisation, what has begun

    def close(self) -> None:
        """Close ``control.db``, and abandon running work between two steps."""
        self._steps.clear()
        super().close()

    def _list_with_work(self, control: ControlDatabase) -> list[str]:
        """Pass the open orders on, and return the ids of organisations that have orders or due rules.

        Organisations without a database here are left out, unless an order may create it. An id can occur
        twice."""
        with control.reading() as db:
            orders = erasures.list_open(db)
            due = retention.list_due(db, clock.now())
        self._erasures.note_orders(orders, control)
        found = [each.organization_id for each in orders]
        if not self._erasures.makes_databases:
            found = list(filter(self._databases.is_there, found))
        return found + list(filter(self._databases.is_there, due))

    def _remove_some(self, organization_id: str, _: sqlite3.Connection) -> bool:
        work = self._steps.pop(organization_id, None) or self._find_work(organization_id)
        if work is None:
            return False
        if next(work, _END) is not _END:
            self._steps[organization_id] = work
        return True

    def _find_work(self, organization_id: str) -> Steps[None] | None:
        """Return the next work on an organisation, or None if there is none now."""
        control = self._control
        with control.reading() as db:
            orders = erasures.list_open(db)
            is_due = organization_id in retention.list_due(db, clock.now())
        traces = self._databases.open(organization_id)
        for erasure in orders:
            if erasure.organization_id == organization_id:
                work = self._erasures.find_work(erasure, control, traces)
                if work is not None:
                    return work
        return self._prune(control, organization_id) if is_due else None

    def _prune(self, control: ControlDatabase, organization_id: str) -> Steps[None]:
        with control.reading() as db:
            rules = retention.find_rules(db, organization_id, clock.now())
        pruned = yield from self._databases.open(organization_id).prune_in_steps(rules)
        with control.transaction() as db:
            retention.note_run(db, organization_id, pruned, clock.now())
            if pruned.entries or pruned.texts:
                details = {
                    "calls": str(pruned.entries),
                    "texts": str(pruned.texts),
                    "bytes": str(pruned.bytes_freed),
                }
                audit.write_for_service(
                    db, organization_id, retention.APPLIED, organization_id, details
                )
