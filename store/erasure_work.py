"""Execution of orders to erase calls: in the traces, in the spool, and in the order itself.

The recorder does it in steps between its calls; if no recorder runs, the command does it. Recorded
calls are erased first. Calls in flight are erased after they were recorded, so the order stays open
until every call that began before it has ended."""

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
    """The part of the recorder that carries out orders to erase.

    It may raise sqlite3.Error and OSError; the work is then tried again."""

    @property
    def makes_databases(self) -> bool:
        """Return whether a trace database is created for an order if the organisation has none."""

    def note_orders(self, orders: Sequence[Erasure], control: ControlDatabase) -> None:
        """Note what open orders need of this machine besides ``find_work``. Called every second."""

    def find_work(
        self, erasure: Erasure, control: ControlDatabase, traces: TraceDatabase
    ) -> Steps[None] | None:
        """Return the next work on an order, or None if there is none now."""


class LocalErasureWork:
    """The execution of orders if all calls are recorded on this machine."""

    makes_databases = True

    def __init__(self, spool_path: Path) -> None:
        self._spool_path = spool_path

    def note_orders(self, orders: Sequence[Erasure], control: ControlDatabase) -> None:
        """Do nothing: all that is known of an order is in ``control.db``."""

    def find_work(
        self, erasure: Erasure, control: ControlDatabase, traces: TraceDatabase
    ) -> Steps[None] | None:
        """Return the next work on an order, or None if there is none now."""
        if not is_ready(erasure, self._spool_path):
            return None
        return carry_out(erasure, control, traces, self._spool_path)


def is_ready(erasure: Erasure, spool_path: Path) -> bool:
    """Return whether there is work on an order now.

    There is none if recorded calls are erased and calls that began before the order are in flight."""
    return erasure.erased_at is None or not count_waiting(erasure, spool_path)


def count_waiting(erasure: Erasure, spool_path: Path) -> int:
    """Return how many calls that began before an order are not recorded yet."""
    unrecorded = find_unrecorded(spool_path, erasure.organization_id)
    return sum(entry_id < erasure.id for entry_id in unrecorded)


def carry_out(
    erasure: Erasure, control: ControlDatabase, traces: TraceDatabase, spool_path: Path
) -> Steps[None]:
    """Erase the recorded calls, and end the order if no call that began before it is in flight.

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
    """Return whether recorded calls are still to be erased for an order.

    They are if ``erased_at`` is None, or if the number of removed calls in the traces differs from
    ``entries``, because the removal of texts failed or another machine did the work."""
    return erased_at is None or erasing.read_count(traces.connection, erasure_id) != entries


def erase_set_aside(erasure: Erasure, criteria: Criteria, spool_path: Path) -> int:
    """Delete the unrecordable spool files whose calls match the criteria.

    Returns how many files of the organisation are left because they cannot be read."""
    left = 0
    for path in unrecorded.list_set_aside(spool_path, erasure.organization_id):
        head = unrecorded.read_head_set_aside(path)
        if head is None or _is_meant(criteria, head) is None:
            left += 1
        elif _is_meant(criteria, head):
            path.unlink(missing_ok=True)
    return left


def _is_meant(criteria: Criteria, head: RequestHead) -> bool | None:
    """Return whether a call matches the criteria, None if its head does not say."""
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
