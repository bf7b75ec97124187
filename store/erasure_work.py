"""Carrying out an order to erase calls: in the traces, in the spool, and in the order itself.

The recorder does it between its calls, in steps; where none runs, the command does it. What is recorded is
erased first. A call that was in flight is erased after it was recorded, so the order stays open until every
call has ended that began before it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from runtime import clock
from store import database
from store.control import audit, erasures
from store.control.database import ControlDatabase
from store.control.erasures import Erasure
from store.spool import unrecorded
from store.spool.format import RequestHead
from store.spool.unrecorded import find_unrecorded
from store.traces.database import TraceDatabase
from store.traces.maintenance import erasing
from store.traces.maintenance.criteria import Criteria
from store.traces.steps import Steps


class ErasureWork(Protocol):
    """Carries out orders in the recorder. It may raise sqlite3.Error and OSError; then it is done again."""

    @property
    def makes_databases(self) -> bool:
        """Return whether orders are carried out also where nothing was recorded, in databases made for it."""

    def note_orders(self, orders: Sequence[Erasure], control: ControlDatabase) -> None:
        """Note what open orders need of this machine besides ``find_work``. Called every second."""

    def find_work(
        self, erasure: Erasure, control: ControlDatabase, traces: TraceDatabase
    ) -> Steps[None] | None:
        """Return the next work on an order, None where there is none now."""


class LocalErasureWork:
    """Carries out orders where all calls are recorded on this machine."""

    makes_databases = True

    def __init__(self, spool_path: Path) -> None:
        self._spool_path = spool_path

    def note_orders(self, orders: Sequence[Erasure], control: ControlDatabase) -> None:
        """Do nothing: an order is in ``control.db`` alone."""

    def find_work(
        self, erasure: Erasure, control: ControlDatabase, traces: TraceDatabase
    ) -> Steps[None] | None:
        """Return the next work on an order, None where there is none now."""
        if not is_ready(erasure, self._spool_path):
            return None
        return carry_out(erasure, control, traces, self._spool_path)


def is_ready(erasure: Erasure, spool_path: Path) -> bool:
    """Return whether there is something to do for an order now. There is not while calls are in flight
    that began before it, and the others are erased."""
    return erasure.erased_at is None or not count_waiting(erasure, spool_path)


def count_waiting(erasure: Erasure, spool_path: Path) -> int:
    """Return how many calls are not recorded yet that began before an order."""
    unrecorded = find_unrecorded(spool_path, erasure.organization_id)
    return sum(entry_id < erasure.id for entry_id in unrecorded)


def carry_out(
    erasure: Erasure, control: ControlDatabase, traces: TraceDatabase, spool_path: Path
) -> Steps[None]:
    """Erase what is recorded, and end the order where no call is in flight that began before it.

    Raises sqlite3.Error, OSError; the order stays open then."""
    criteria = erasure.find_criteria()
    if erasure.criteria is None or criteria is None:
        return
    waiting = count_waiting(erasure, spool_path)  # before: what is recorded meanwhile is found
    is_open = is_unfinished(erasure.id, erasure.erased_at, erasure.entries, traces)
    if is_open or (yield from erasing.find_calls(traces.connection, criteria)):
        entries = yield from traces.erase_in_steps(erasure.id, criteria)
        with control.transaction() as db:
            erasures.note_erased(db, erasure.id, entries, clock.now())
    if waiting:
        return
    left = erase_set_aside(erasure, criteria, spool_path)
    entries = erasing.read_count(traces.connection, erasure.id)
    with control.transaction() as db:
        erasures.note_end(db, erasure.id, left, clock.now())
        details = {"calls": str(entries), "what": erasures.describe(erasure.criteria)}
        audit.write_for_service(db, erasure.organization_id, erasures.ENDED, erasure.id, details)
    erasing.forget_count(traces.connection, erasure.id)
    while not control.empty_log():
        yield
    while not database.empty_log(traces.connection):
        yield


def is_unfinished(
    erasure_id: str, erased_at: str | None, entries: int, traces: TraceDatabase
) -> bool:
    """Return whether what was recorded has to be erased: it never was, or the count of removed calls
    differs from what is noted, since work on their texts failed, or it was done elsewhere."""
    return erased_at is None or erasing.read_count(traces.connection, erasure_id) != entries


def erase_set_aside(erasure: Erasure, criteria: Criteria, spool_path: Path) -> int:
    """Delete the spool files of such calls that could not be recorded.

    Returns how many files of the organisation cannot be read and are left."""
    left = 0
    for path in unrecorded.list_set_aside(spool_path, erasure.organization_id):
        head = unrecorded.read_head_set_aside(path)
        if head is None or _is_meant(criteria, head) is None:
            left += 1
        elif _is_meant(criteria, head):
            path.unlink(missing_ok=True)
    return left


def _is_meant(criteria: Criteria, head: RequestHead) -> bool | None:
    """Return whether a call is to be erased, None where its head does not tell."""
    client = head.user_agent or ""
    is_meant = (
        (criteria.credential in (None, head.credential_hmac))
        and (criteria.endpoint in (None, head.proxy_endpoint_id, head.slug))
        and (criteria.client is None or client.startswith(criteria.client))
        and (criteria.since is None or head.created_at >= criteria.since)
        and (criteria.until is None or head.created_at < criteria.until)
    )
    if not is_meant or criteria.session in (None, head.session_id):
        return is_meant
    return None if head.session_id is None else False  # its body may name one
