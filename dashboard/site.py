"""The objects that all classes of pages are made with."""

from dataclasses import dataclass

from dashboard.kept_connections import KeptConnections
from dashboard.live.in_flight import SpoolWatch
from dashboard.page_forwarding import PageForwarding
from dashboard.prices import PagePrices
from dashboard.visitors import Visitors
from runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The settings of the service, its visitors, connections to trace databases, and other shared objects.
    ``forwarding`` has pages made by query processes; ``spool`` finds calls in flight. ``has_people``:
    the service has the pages for signing in and for settings too."""

    settings: Settings
    visitors: Visitors
    connections: KeptConnections
    forwarding: PageForwarding
    prices: PagePrices
    spool: SpoolWatch
    has_people: bool
