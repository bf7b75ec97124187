"""The page that replaces another one while nothing has been recorded: how to connect a client."""

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
    """The page that replaces others for organisations without recorded calls."""

    def __init__(self, site: Site) -> None:
        self._settings = site.settings
        self._visitors = site.visitors

    def applies_to(self, caller: Caller) -> bool:
        """Return whether no call of the caller's organisation was ever recorded."""
        return not trace_path(self._settings.data_dir, caller.organization_id).exists()

    async def render(
        self, request: Request, caller: Caller, title: str, here: str, status: int = 200
    ) -> Response:
        """Return the page that replaces the one titled ``title``. ``here`` is the active entry of the
        navigation.

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
        """Return the newest proxy endpoint, None if there is none."""
        page = Management.make(control, self._settings).list_endpoints(visitor, limit=1)
        return page.items[0] if page.items else None
