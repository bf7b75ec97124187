"""Amounts of a limited resource that client connections hold: in total and by client address.

Besides, the first of the limits on them: that on requests at the web process. ``body_memory`` has the other.

Sums are over all workers. What the others hold for an address is known by sums that a few addresses may
share (``runtime/worker_board.py``).
"""

from collections import Counter

from runtime.worker_board import Shared, WorkerBoard

# Requests at the web process. A browser opens six connections to a host, and clients of the API few more.
MAX_OF_ALL = 256
MAX_OF_ADDRESS = 64


class Holdings:
    """Adds up amounts by connection and by client address. The address ``""`` stands for nobody."""

    def __init__(self, board: WorkerBoard, sums: Shared, sums_of_nobody: Shared) -> None:
        """Add up over all workers of the board, by what these two sums are for."""
        self._board = board
        self._sums = sums
        self._sums_of_nobody = sums_of_nobody
        self._by_connection: dict[str, tuple[int, str]] = {}
        self._by_address: Counter[str] = Counter()
        self.own_total = 0  # of this worker alone

    @property
    def total(self) -> int:
        """Return how much is held over all."""
        return self.own_total + self._board.of_others(self._sums)

    def put(self, connection: str, amount: int, address: str) -> None:
        """Note the amount that a connection holds now, on behalf of this address."""
        before, address_before = self._by_connection.get(connection, (0, address))
        if address_before != address:
            self.remove(connection)
            before = 0
        self._by_connection[connection] = (amount, address)
        self._change(amount - before, address)

    def remove(self, connection: str) -> None:
        """Note that a connection holds nothing any more."""
        held = self._by_connection.pop(connection, None)
        if held is not None:
            self._change(-held[0], held[1])

    def of_address(self, address: str) -> int:
        """Return how much an address holds."""
        others = (
            self._board.of_others_for(self._sums, address)
            if address
            else self._board.of_others(self._sums_of_nobody)
        )
        return self._by_address[address] + others

    def of_others(self, address: str) -> int:
        """Return how much all other addresses hold."""
        nobody = self.of_address("") if address else 0
        return self.total - self.of_address(address) - nobody

    def _change(self, amount: int, address: str) -> None:
        self.own_total += amount
        self._board.add(self._sums, amount)
        self._by_address[address] += amount
        if not self._by_address[address]:
            del self._by_address[address]
        if address:
            self._board.add_for(self._sums, address, amount)
        else:
            self._board.add(self._sums_of_nobody, amount)


class WebSlots:
    """Hands out slots at the web process. Each is held from when a request is whole until its
    response is."""

    def __init__(self, board: WorkerBoard) -> None:
        self._taken = Holdings(board, Shared.WEB_SLOTS, Shared.WEB_SLOTS_OF_NOBODY)

    def take(self, client_id: str, address: str) -> bool:
        """Take a slot for the request of a client connection; return whether there is one."""
        is_free = (
            self._taken.total < MAX_OF_ALL and self._taken.of_address(address) < MAX_OF_ADDRESS
        )
        if is_free:
            self._taken.put(client_id, 1, address)
        return is_free

    def release(self, client_id: str) -> None:
        """Note that the request of a client connection is over, if it had a slot."""
        self._taken.remove(client_id)
