"""Amounts of a limited resource that client connections hold: in total and by client address."""

from collections import Counter


class Holdings:
    """Adds up amounts by connection and by client address. The address ``""`` stands for nobody."""

    def __init__(self) -> None:
        self._by_connection: dict[str, tuple[int, str]] = {}
        self._by_address: Counter[str] = Counter()
        self.total = 0

    def put(self, connection: str, amount: int, address: str) -> None:
        """Note that a connection holds so much now, on behalf of this address."""
        self.remove(connection)
        self._by_connection[connection] = (amount, address)
        self._by_address[address] += amount
        self.total += amount

    def remove(self, connection: str) -> None:
        """Note that a connection holds nothing any more."""
        amount, address = self._by_connection.pop(connection, (0, ""))
        self.total -= amount
        self._by_address[address] -= amount
        if not self._by_address[address]:
            del self._by_address[address]

    def of_address(self, address: str) -> int:
        """Return how much an address holds."""
        return self._by_address[address]

    def of_others(self, address: str) -> int:
        """Return how much all other addresses hold."""
        return self.total - self._by_address[address] - (self._by_address[""] if address else 0)
