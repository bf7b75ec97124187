"""The limit on requests that the web process has at a time, over all and for each client address."""

from addon.holdings import Holdings
from runtime.worker_board import Shared, WorkerBoard

# A browser opens six connections to a host, and clients of the API few more.
MAX_OF_ALL = 256
MAX_OF_ADDRESS = 64


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
