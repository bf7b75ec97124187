"""The copies of all calls, where several machines of the service keep some of them."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runtime import extensions
from store.control.erasures import Erasure


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyProgress:
    """The state of an order to erase calls in a copy.

    Its node has erased what it had at ``erased_at``, and what came later by ``settled_at``. ``address`` and
    ``is_alive`` are of the node, as far as this one knows."""

    copy: str
    node: str
    address: str | None
    is_alive: bool
    entries: int
    erased_at: str | None
    settled_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of an order.

    Of several copies ``copies`` has the nodes that carry it out, and ``unshipped`` names the proxy nodes that
    may have calls of before it."""

    erasure: Erasure
    copies: Sequence[CopyProgress] = ()
    unshipped: Sequence[str] = ()


class Copies(Protocol):
    """The copies as one of the machines sees them."""

    def is_elsewhere(self, organization_id: str) -> bool:
        """Return whether other machines keep the calls of an organisation, and this one does not."""

    def list_others(self) -> Sequence[str]:
        """Return the address of each other machine that keeps calls, with the name of its copy."""

    def wait_until_whole(self) -> bool:
        """Wait until this machine has all that other copies have now; return whether it has."""

    def note_order(self, erasure: Erasure, db: sqlite3.Connection) -> None:
        """Note who has to carry out a new order to erase calls, in its transaction of ``control.db``."""

    def find_progress(self, erasure: Erasure, db: sqlite3.Connection) -> Progress:
        """Return how far an order is, as ``control.db`` says."""


def find_copies(data_dir: Path) -> Copies | None:
    """Return the copies that a data directory has a part of, None where it has all calls."""
    found: Copies | None = extensions.call().copies(data_dir=data_dir)
    return found
