"""Amounts of a limited resource that client connections use, in total and by client address.

This module also has the limit on concurrent requests at the web process; ``body_memory`` has the one
on memory. Sums are over all workers. What other workers count for an address is known only by sums
that a few addresses may share (``runtime/worker_board.py``)."""

from collections import Counter

from runtime.worker_board import Shared, WorkerBoard

# Requests at the web process. A browser opens six connections to a host, and clients of the API few more.
MAX_OF_ALL = 256
MAX_OF_ADDRESS = 64


class Holdings:
    """Adds up amounts by connection and by client address. ``""`` is the address of amounts without a
    client."""

    def __init__(self, board: WorkerBoard, sums: Shared, sums_of_nobody: Shared) -> None:
        """Add up over all workers of ``board``, in ``sums`` and, without address, in ``sums_of_nobody``."""
        self._board = board
        self._sums = sums
        self._sums_of_nobody = sums_of_nobody
        self._by_connection: dict[str, tuple[int, str]] = {}
        self._by_address: Counter[str] = Counter()
        self.own_total = 0  # of this worker alone

    @property
    def total(self) -> int:
        """Return the sum over all workers."""
        return self.own_total + self._board.of_others(self._sums)

    def put(self, connection: str, amount: int, address: str) -> None:
        """Set the amount that a connection uses, on behalf of a client address."""
        before, address_before = self._by_connection.get(connection, (0, address))
        if address_before != address:
            self.remove(connection)
            before = 0
        self._by_connection[connection] = (amount, address)
        self._change(amount - before, address)

    def remove(self, connection: str) -> None:
        """Remove the amount of a connection."""
        held = self._by_connection.pop(connection, None)
        if held is not None:
            self._change(-held[0], held[1])

    def of_address(self, address: str) -> int:
        """Return the amount that a client address uses, over all workers."""
        others = (
            self._board.of_others_for(self._sums, address)
            if address
            else self._board.of_others(self._sums_of_nobody)
        )
        return self._by_address[address] + others

    def of_others(self, address: str) -> int:
        """Return the amount that all other client addresses use, over all workers."""
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
    """The slots for concurrent requests at the web process.

    A slot is held from the end of a request to the end of its response."""

    def __init__(self, board: WorkerBoard) -> None:
        self._taken = Holdings(board, Shared.WEB_SLOTS, Shared.WEB_SLOTS_OF_NOBODY)

    def take(self, client_id: str, address: str) -> bool:
        """Take a slot for the request of a client connection; return False if none is free."""
        is_free = (
            self._taken.total < MAX_OF_ALL and self._taken.of_address(address) < MAX_OF_ADDRESS
        )
        if is_free:
            self._taken.put(client_id, 1, address)
        return is_free

    def release(self, client_id: str) -> None:
        """Release the slot of a client connection, if it has one."""
        self._taken.remove(client_id)
