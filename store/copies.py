"""Copies of all calls, if several machines of the service keep them."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runtime import extensions
from store.control.erasures import Erasure


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyProgress:
    """The progress of an order to erase calls in one copy.

    The node has erased the calls that it had at ``erased_at``, and those that arrived later at
    ``settled_at``. ``address`` and ``is_alive`` are those of the node, as far as this machine knows."""

    copy: str
    node: str
    address: str | None
    is_alive: bool
    entries: int
    erased_at: str | None
    settled_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of an order to erase calls.

    If there are several copies, ``copies`` has the progress of each, and ``unshipped`` the proxy nodes
    that may still have calls from before the order."""

    erasure: Erasure
    copies: Sequence[CopyProgress] = ()
    unshipped: Sequence[str] = ()


class Copies(Protocol):
    """The copies of all calls, as seen from one machine."""

    def is_elsewhere(self, organization_id: str) -> bool:
        """Return whether only other machines keep the calls of an organisation."""

    def list_others(self) -> Sequence[str]:
        """Return the address of each other machine that keeps calls, with the name of its copy."""

    def wait_until_whole(self) -> bool:
        """Wait until this machine has all calls that other copies have now; return whether it has."""

    def note_order(self, erasure: Erasure, db: sqlite3.Connection) -> None:
        """Note which machines have to carry out a new order, in its transaction of ``control.db``."""

    def find_progress(self, erasure: Erasure, db: sqlite3.Connection) -> Progress:
        """Return the progress of an order, as noted in ``control.db``."""


def find_copies(data_dir: Path) -> Copies | None:
    """Return the copies that a data directory has a part of, or None if it has all calls."""
    found: Copies | None = extensions.call().copies(data_dir=data_dir)
    return found
