"""The things that pages are made with."""

from dataclasses import dataclass

from dashboard.kept_connections import KeptConnections
from dashboard.live.in_flight import SpoolWatch
from dashboard.page_forwarding import PageForwarding
from dashboard.prices import PagePrices
from dashboard.visitors import Visitors
from runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The settings of the service, its visitors, connections to trace databases, and what pages share.

    ``forwarding`` has query processes make pages, ``spool`` has the calls in flight. ``has_people``: the
    service has the pages for signing in and for settings, and not those of calls alone."""

    settings: Settings
    visitors: Visitors
    connections: KeptConnections
    forwarding: PageForwarding
    prices: PagePrices
    spool: SpoolWatch
    has_people: bool
