"""The interface to the connections to ``control.db``."""

from collections.abc import Callable
from typing import Protocol

from store.control.database import ControlDatabase


class ControlPool(Protocol):
    async def run[T](self, work: Callable[[ControlDatabase], T], /) -> T:
        """Run a function in a thread, with a connection to ``control.db``. Raises what it raises."""
        ...
