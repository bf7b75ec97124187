"""What the pages need of whoever keeps the connections to ``control.db``."""

from collections.abc import Callable
from typing import Protocol

from store.control.database import ControlDatabase


class ControlPool(Protocol):
    async def run[T](self, work: Callable[[ControlDatabase], T], /) -> T:
        """Do it in a thread, with a connection of its own. Raises what it raises."""
        ...
