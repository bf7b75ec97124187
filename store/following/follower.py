"""Forwarding of finished calls to a receiver, in the order in which they were stored.

A batch is sent, and its position is written once the receiver has acknowledged it. So each call is
sent once; only if the process is killed in between are calls sent again, with the same ids. While
the receiver is not available, calls wait in the trace databases. At most ``MAX_WAITING`` calls of
an organisation wait: older ones are dropped and counted.

A batch that the receiver refuses because of its content is sent again in smaller ones, so that only
the refused call is dropped and counted. Later calls do not wait for it."""

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from runtime.trouble_log import TroubleLog
from store.following.positions import Position, Positions
from store.traces.bodies.bodies import StoredBodies
from store.traces.calls.finished_calls import FinishedCall, FinishedCalls
from store.traces.paths import Stamp, find_stamp, find_trace_files

logger = logging.getLogger(__name__)

BATCH = 100
BATCH_WITH_BODIES = 10
MAX_WAITING = 100_000

type Batch = Sequence[tuple[FinishedCall, StoredBodies | None]]
# Sends the calls of an organisation, and returns how many the receiver has left out. Raises
# ReceiverAwayError, BatchRefusedError.
type Send = Callable[[str, Batch], int]


class ReceiverAwayError(Exception):
    """The receiver did not acknowledge a batch, but may do so later. The message says why."""


class BatchRefusedError(Exception):
    """The receiver will never acknowledge this batch. The message says why."""


class Follower:
    """The forwarding of the calls of all organisations to one receiver."""

    def __init__(
        self,
        data_dir: Path,
        positions: Positions,
        receiver: str,
        send: Send,
        *,
        with_bodies: bool = False,
    ) -> None:
        self._data_dir = data_dir
        self._positions = positions
        self._receiver = receiver
        self._send = send
        self._with_bodies = with_bodies
        self._seen: dict[str, Stamp] = {}  # where nothing was left to send
        self._done: dict[str, Stamp] = {}
        self._troubles = defaultdict[str, TroubleLog](
            lambda: TroubleLog(logger, "Calls of an organisation cannot be read: %s")
        )
        self._drops = defaultdict[str, TroubleLog](
            lambda: TroubleLog(logger, "Too many calls wait to be handed on: %s")
        )
        self._refusals = defaultdict[str, TroubleLog](
            lambda: TroubleLog(logger, "The receiver refuses calls, which are dropped: %s")
        )
        self._most = BATCH_WITH_BODIES if with_bodies else BATCH
        self._sizes = defaultdict[str, int](lambda: self._most)

    def run_round(self, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Send all waiting calls, one batch per organisation in turn.

        Raises ReceiverAwayError, and sqlite3.Error if the position cannot be written."""
        waiting = find_trace_files(self._data_dir)
        while waiting and not is_stopping():
            waiting = [path for path in waiting if self._hand_on_batch(path)]

    def _hand_on_batch(self, path: Path) -> bool:
        """Send one batch of an organisation. Return whether there may be more."""
        organization_id, stamp = path.parent.name, find_stamp(path)
        if self._done.get(organization_id) == stamp:
            return False
        position = self._positions.find(self._receiver, organization_id)
        try:
            position, batch = self._read(path, organization_id, position)
        except sqlite3.Error as error:  # of this organisation alone; it is tried again
            self._troubles[organization_id].report(f"{organization_id}: {error}")
            return False
        self._troubles[organization_id].clear()
        if not batch:
            # A file may change again within the same tick of its clock: look once more after a change.
            if self._seen.get(organization_id) == stamp:
                self._done[organization_id] = stamp
            self._seen[organization_id] = stamp
            return False
        try:
            left_out = min(self._send(organization_id, batch), len(batch))
        except BatchRefusedError as error:
            self._sizes[organization_id] = max(1, len(batch) // 2)
            if len(batch) > 1:
                return True
            self._refusals[organization_id].report(f"of {organization_id}: {error}")
            position = replace(position, dropped=position.dropped + 1)
        else:
            self._sizes[organization_id] = min(2 * self._sizes[organization_id], self._most)
            if left_out:
                self._refusals[organization_id].report(
                    f"of {organization_id}: it has left some out"
                )
            else:
                self._refusals[organization_id].clear()
            position = replace(
                position,
                exported=position.exported + len(batch) - left_out,
                dropped=position.dropped + left_out,
            )
        last = batch[-1][0]
        position = replace(position, last_id=last.id, last_entry_id=last.entry_id)
        self._positions.write(self._receiver, organization_id, position)
        return True

    def _read(self, path: Path, organization_id: str, position: Position) -> tuple[Position, Batch]:
        """Return the position to continue from, and the next batch."""
        with FinishedCalls.open(path) as calls:
            if calls is None:
                return position, []
            newest_id, _ = calls.find_newest()
            known = calls.find_entry_id(position.last_id)
            is_other = known is not None and known != position.last_entry_id
            if position.last_entry_id is not None and (
                is_other or position.last_id > calls.find_last_used()
            ):
                # Another database is there, from a backup: its ids are of other calls.
                last_id = calls.find_last_until(position.last_entry_id)
                position = replace(position, last_id=last_id)
            position = self._drop(calls, organization_id, position, newest_id)
            found = calls.read_after(position.last_id, self._sizes[organization_id])
            return position, [
                (call, calls.read_bodies(call.id) if self._with_bodies else None) for call in found
            ]

    def _drop(
        self, calls: FinishedCalls, organization_id: str, position: Position, newest_id: int
    ) -> Position:
        """Drop calls in excess of ``MAX_WAITING``, and return and write the position after them."""
        until = newest_id - MAX_WAITING
        if until <= position.last_id:
            self._drops[organization_id].clear()
            return position
        dropped = calls.count_between(position.last_id, until)
        position = replace(
            position,
            last_id=until,
            last_entry_id=calls.find_entry_id(until) or position.last_entry_id,
            dropped=position.dropped + dropped,
        )
        self._positions.write(self._receiver, organization_id, position)
        self._drops[organization_id].report(f"of {organization_id} the oldest are dropped")
        return position


def begin(data_dir: Path, positions: Positions, receiver: str) -> None:
    """Note the newest calls before a receiver is first used, so that it does not get earlier calls.

    Raises sqlite3.Error, OSError."""
    newest = {}
    for path in find_trace_files(data_dir):
        with suppress(sqlite3.Error), FinishedCalls.open(path) as calls:
            if calls is not None:
                last_id, entry_id = calls.find_newest()
                newest[path.parent.name] = Position(last_id=last_id, last_entry_id=entry_id)
    positions.begin(receiver, newest)
