"""The part of the service that runs on this machine: all of it, unless an extension says otherwise."""

from dataclasses import dataclass
from typing import Literal

type Part = Literal["proxy", "recorder", "web"]

PARTS: frozenset[Part] = frozenset({"proxy", "recorder", "web"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine of the service. ``web`` among its ``parts`` says that it has the people and the pages.

    ``copy`` is the name of the copy of all calls that the recorder here keeps a part of, None where it keeps
    all calls. ``outgoing`` is the folder of the spool that the proxy here writes, and ``budgets`` the file
    of used up budgets that the recorder here writes, both in the data directory."""

    parts: frozenset[Part] = PARTS
    copy: str | None = None
    outgoing: str = "spool"
    budgets: str = "budgets.json"

    @property
    def is_alone(self) -> bool:
        """Return whether the whole service is this machine."""
        return self.copy is None and self.parts == PARTS
