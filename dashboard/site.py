"""The things that pages are made with."""

from dataclasses import dataclass

from dashboard.kept_connections import KeptConnections
from dashboard.visitors import Visitors
from runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The settings of the service, its visitors, and connections to trace databases.

    ``has_people``: it has the pages for signing in and for settings, and not those of calls alone."""

    settings: Settings
    visitors: Visitors
    connections: KeptConnections
    has_people: bool
