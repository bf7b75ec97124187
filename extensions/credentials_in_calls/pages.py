"""The credentials that were found in calls, redacted, for owners: a section of the page “Security”.

``/secrets`` redirects there. On a machine without sign-in, which keeps the calls of another machine,
it is a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import rendering
from dashboard.call_route import CallRoute
from dashboard.rendering import PRIVATE
from dashboard.site import Site
from extensions.credentials_in_calls.findings import MAX_LISTED, ListedSecret, list_secrets
from extensions.credentials_in_calls.settings import SEARCH
from store.control.people import Caller
from store.copies import find_copies
from store.traces.paths import trace_path

_SECTION = "/settings/security#credentials"
_PLACES = {
    "system": "system prompt",
    "tool": "description of a tool",
    "user": "user",
    "assistant": "assistant",
    "tool_result": "tool result",
    "request": "request",
    "response": "response",
}


class SecretPages:
    """The page of found credentials for owners. For members it does not exist."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        return [CallRoute("/secrets", self.secrets_page)]

    async def secrets_page(self, request: Request) -> Response:
        visitor = await self._site.visitors.require(request)
        if visitor.role != "owner":
            raise HTTPException(404)
        if self._site.has_people:
            return rendering.redirect(_SECTION)
        found = await run_in_threadpool(_find, self._site, visitor)
        return rendering.render("secrets.html", visitor=visitor, headers=PRIVATE, **found)


def make_section(site: Site, visitor: Caller) -> Markup | None:
    """Return the section of the page “Security”, None for members."""
    if visitor.role != "owner":
        return None
    found = _find(site, visitor)
    return Markup(rendering.render_part("secrets_section.html", visitor=visitor, **found))  # noqa: S704 - of a template


def _find(site: Site, visitor: Caller) -> Mapping[str, Any]:
    """Return the credentials found in the calls on this machine, as values for a template.

    Raises sqlite3.Error."""
    path = trace_path(site.settings.data_dir, visitor.organization_id)
    is_here = path.exists()
    found: Sequence[ListedSecret] = ()
    if is_here:
        with site.connections.lend(path) as connection:
            found = list_secrets(path, connection)
    return {
        "found": found,
        "is_elsewhere": not is_here and find_copies(site.settings.data_dir) is not None,
        "is_on": site.settings.of(SEARCH),
        "places": _PLACES,
        "max_listed": MAX_LISTED,
    }
