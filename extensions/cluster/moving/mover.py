"""The moves of a node: it gives one bucket and takes one bucket at a time."""

from extensions.cluster import copies, server
from extensions.cluster.copies import Copy
from extensions.cluster.moving.giving import Giver
from extensions.cluster.moving.moves import find_moves
from extensions.cluster.moving.taking import Taker


class Mover:
    """Carries out the moves that concern its node."""

    def __init__(self, client: server.Client, copy: Copy, giver: Giver, taker: Taker) -> None:
        self._client, self._copy = client, copy
        self._giver, self._taker = giver, taker
        self._copy.paused = taker.paused

    def run_round(self) -> bool:
        """Do the next steps of the node's moves; return whether more can follow at once.

        Raises redis.RedisError, sqlite3.Error, OSError."""
        moves = [each for each in find_moves(self._client) if each.group == self._copy.group]
        ours = [each for each in moves if self._copy.node in (each.giver, each.taker)]
        if not ours and not self._copy.paused:
            return False
        if ours:
            known = copies.find_members(self._client).keys()
            ours = [each for each in ours if {each.giver, each.taker} <= known]
        holders = copies.find_holders(self._client, self._copy.group)
        living = copies.find_living(self._client, self._copy.group)
        given = next((each for each in ours if each.giver == self._copy.node), None)
        taken = next((each for each in ours if each.taker == self._copy.node), None)
        try:
            is_busy = self._taker.run_round(taken, holders)
            return is_busy | self._giver.run_round(
                given,
                None if given is None else holders[given.bucket],
                is_awaited=given is not None and given.taker in living,
            )
        finally:
            self._copy.paused = self._giver.paused | self._taker.paused

    def close(self) -> None:
        """Release held files. The move begins again after the next start."""
        self._giver.release()
