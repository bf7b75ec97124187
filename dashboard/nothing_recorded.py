"""The page in place of one that has nothing to show yet: how a client is connected."""

from starlette.requests import Request
from starlette.responses import Response

from dashboard import rendering
from dashboard.site import Site
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint
from store.control.management import Management
from store.control.people import Caller
from store.control.sessions import Visitor
from store.traces.paths import trace_path


class NothingRecorded:
    """The page of organisations of which nothing has been recorded."""

    def __init__(self, site: Site) -> None:
        self._settings = site.settings
        self._visitors = site.visitors

    def applies_to(self, caller: Caller) -> bool:
        """Return whether nothing of the caller's organisation was ever recorded."""
        return not trace_path(self._settings.data_dir, caller.organization_id).exists()

    async def render(
        self, request: Request, caller: Caller, title: str, here: str, status: int = 200
    ) -> Response:
        """Return the page in place of the one with this title. ``here`` is its part of the navigation.

        Raises NotSignedInError, sqlite3.Error."""
        endpoint = None
        if isinstance(caller, Visitor):
            _, endpoint = await self._visitors.require_with(request, self._find_endpoint)
        return rendering.render(
            "nothing_recorded.html",
            visitor=caller,
            status=status,
            title=title,
            here=here,
            endpoint=endpoint,
            settings=self._settings,
        )

    def _find_endpoint(self, control: ControlDatabase, visitor: Visitor) -> ProxyEndpoint | None:
        """Return the newest proxy endpoint, None where there is none."""
        page = Management.make(control, self._settings).list_endpoints(visitor, limit=1)
        return page.items[0] if page.items else None
