"""Notifying a third-party extension of stored calls."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pluggy

from manage.third_party.calling import Calling
from metering.token_counts import flatten
from store.following import follower
from store.following.follower import Batch, Follower, ReceiverAwayError
from store.following.positions import Positions, make_migrations

NAME = "extensions.db"
HOOK = "calls_were_stored"
migrations = make_migrations("extensions")


def open_positions(data_dir: Path) -> Positions:
    """Open the positions up to which each extension was notified. Raises sqlite3.Error, OSError."""
    return Positions(data_dir / NAME, migrations)


def begin(data_dir: Path, names: Iterable[str]) -> None:
    """Store the current position for new extensions, so that they get only calls stored from now on.

    Raises sqlite3.Error, OSError."""
    with open_positions(data_dir) as positions:
        for name in names:
            follower.begin(data_dir, positions, name)


class Teller:
    """Notifies one extension of the calls of all organisations."""

    def __init__(
        self,
        data_dir: Path,
        positions: Positions,
        name: str,
        manager: pluggy.PluginManager,
        calling: Calling,
    ) -> None:
        self._name = name
        self._manager = manager
        self._calling = calling
        self._follower = Follower(data_dir, positions, name, self._tell)

    def run_round(self, is_stopping: Callable[[], bool]) -> None:
        """Notify the extension of calls stored since the last round, unless it is disabled.

        Raises sqlite3.Error, OSError."""
        if self._calling.is_left_out(self._name):
            return
        try:
            self._follower.run_round(is_stopping)
        except ReceiverAwayError:  # it is left out, and these calls wait for the next start
            return

    def _tell(self, organization_id: str, batch: Batch) -> int:
        calls = [flatten(call) for call, _ in batch]
        with self._calling.noted(self._name, HOOK):
            self._manager.hook.calls_were_stored(organization_id=organization_id, calls=calls)
        if self._calling.is_left_out(self._name):
            raise ReceiverAwayError(f"the extension {self._name} failed")
        return 0
