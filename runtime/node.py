"""The part of the service that runs on this machine: all of it, unless an extension says otherwise."""

from dataclasses import dataclass
from typing import Literal

type Part = Literal["proxy", "recorder", "web"]

PARTS: frozenset[Part] = frozenset({"proxy", "recorder", "web"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The part of the service on one machine. If ``parts`` contains ``web``, it has the pages and sign-in.

    ``copy`` is the name of the copy of all calls of which the recorder here keeps a part, None if it
    keeps all calls. ``outgoing`` is the folder of the proxy's spool, and ``budgets`` the file of
    used-up budgets that the recorder writes, both in the data directory."""

    parts: frozenset[Part] = PARTS
    copy: str | None = None
    outgoing: str = "spool"
    budgets: str = "budgets.json"

    @property
    def is_alone(self) -> bool:
        """Return whether this machine runs the whole service."""
        return self.copy is None and self.parts == PARTS
