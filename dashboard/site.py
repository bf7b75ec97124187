"""The things that pages are made with."""

from dataclasses import dataclass

from dashboard.kept_connections import KeptConnections
from dashboard.page_forwarding import PageForwarding
from dashboard.visitors import Visitors
from runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The settings of the service, its visitors, connections to trace databases, and query processes.

    ``has_people``: it has the pages for signing in and for settings, and not those of calls alone."""

    settings: Settings
    visitors: Visitors
    connections: KeptConnections
    forwarding: PageForwarding
    has_people: bool
