"""Carrying out an order to erase calls: in the traces, in the spool, and in the order itself.

The recorder does it between its calls, in steps; where none runs, the command does it. What is recorded is
erased first. A call that was in flight is erased after it was recorded, so the order stays open until every
call has ended that began before it.

In a cluster each copy does so, and goes on to look at what is recorded until the node with people ends the
order: only that one knows whether calls can still come which began before it.
"""

from pathlib import Path

from extensions.cluster import erasure_copies
from extensions.cluster.erasure_copies import ErasureCopy
from runtime import clock
from store import database
from store.control import audit, erasures
from store.control.database import ControlDatabase
from store.control.erasures import Erasure
from store.spool import set_aside
from store.spool.format import RequestHead
from store.spool.unrecorded import find_unrecorded
from store.traces.database import TraceDatabase
from store.traces.maintenance import erasing
from store.traces.maintenance.erasing import Criteria
from store.traces.steps import Steps


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
    is_unfinished = _is_unfinished(erasure.id, erasure, traces)
    if is_unfinished or (yield from erasing.find_calls(traces.connection, criteria)):
        entries = yield from traces.erase_in_steps(erasure.id, criteria)
        with control.transaction() as db:
            erasures.note_erased(db, erasure.id, entries, clock.now())
    if waiting:
        return
    left = _erase_set_aside(erasure, criteria, spool_path)
    entries = erasing.read_count(traces.connection, erasure.id)
    with control.transaction() as db:
        erasures.note_end(db, erasure.id, left, clock.now())
        details = {"calls": str(entries), "what": erasures.describe(erasure.criteria)}
        audit.write_for_service(db, erasure.organization_id, "erase.end", erasure.id, details)
    erasing.forget_count(traces.connection, erasure.id)
    while not control.empty_log():
        yield
    while not database.empty_log(traces.connection):
        yield


def is_ready_in_copy(
    erasure: Erasure, state: ErasureCopy, traces: TraceDatabase, spool_path: Path
) -> bool:
    """Return whether the calls of a copy have to be looked through now: they never were, that has failed,
    or nothing can come any more that began before the order."""
    is_unfinished = _is_unfinished(erasure.id, state, traces)
    return is_unfinished or _is_settling(erasure, state, spool_path)


def carry_out_in_copy(
    erasure: Erasure,
    state: ErasureCopy,
    control: ControlDatabase,
    traces: TraceDatabase,
    spool_path: Path,
    *,
    after: int,
) -> Steps[None]:
    """Erase what is recorded in a copy of a cluster, and note how far it is. The node with people ends
    the order. Calls up to the one with the id ``after`` were looked at before.

    Raises sqlite3.Error, OSError; then it is done again."""
    criteria = erasure.find_criteria()
    if criteria is None:
        return
    # Before calls are looked for: what is recorded meanwhile is found.
    is_settling = _is_settling(erasure, state, spool_path)
    is_unfinished = _is_unfinished(erasure.id, state, traces)
    looked_at = 0 if is_settling or is_unfinished else after
    found = yield from erasing.find_calls(traces.connection, criteria, looked_at)
    if found or is_unfinished:
        entries = yield from traces.erase_in_steps(erasure.id, criteria)
        with control.transaction() as db:
            erasure_copies.note_erased(db, state, entries, clock.now())
    if is_settling:
        _settle(erasure, state, control, spool_path)


def note_nothing(
    erasure: Erasure, state: ErasureCopy, control: ControlDatabase, spool_path: Path, traces: Path
) -> None:
    """Note how far a copy is that has no calls of the organisation, whose database would be ``traces``.

    Raises sqlite3.Error, OSError."""
    is_settling = _is_settling(erasure, state, spool_path)
    if traces.exists():
        return
    if state.erased_at is None:
        with control.transaction() as db:
            erasure_copies.note_erased(db, state, 0, clock.now())
    if is_settling:
        _settle(erasure, state, control, spool_path)


def _is_unfinished(erasure_id: str, noted: Erasure | ErasureCopy, traces: TraceDatabase) -> bool:
    """Return whether what was recorded has to be erased: it never was, or the count of removed calls
    differs from what is noted, since work on their texts failed, or another node removed them."""
    return noted.erased_at is None or (
        erasing.read_count(traces.connection, erasure_id) != noted.entries
    )


def _is_settling(erasure: Erasure, state: ErasureCopy, spool_path: Path) -> bool:
    """Return whether all calls are recorded that began before an order, and it was not looked for them."""
    has_arrived = state.shipped is not None and state.settled_at is None
    return has_arrived and not count_waiting(erasure, spool_path)


def _settle(
    erasure: Erasure, state: ErasureCopy, control: ControlDatabase, spool_path: Path
) -> None:
    criteria = erasure.find_criteria()
    if criteria is None:
        return
    left = _erase_set_aside(erasure, criteria, spool_path)
    with control.transaction() as db:
        erasure_copies.note_settled(db, state, left, clock.now())


def _erase_set_aside(erasure: Erasure, criteria: Criteria, spool_path: Path) -> int:
    """Delete the spool files of such calls that could not be recorded.

    Returns how many files of the organisation cannot be read and are left."""
    left = 0
    for path in set_aside.list_files(spool_path, erasure.organization_id):
        head = set_aside.read_head(path)
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
