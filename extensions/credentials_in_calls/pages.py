"""``/secrets``: the credentials that were found in calls, redacted, for owners."""

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import rendering
from dashboard.call_route import CallRoute
from dashboard.kept_connections import KeptConnections
from dashboard.rendering import PRIVATE
from dashboard.visitors import Visitors
from extensions.credentials_in_calls.findings import MAX_LISTED, list_secrets
from extensions.credentials_in_calls.settings import SEARCH
from runtime.settings import Settings
from store.control.sessions import Visitor
from store.traces.paths import trace_path

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
    """The page for owners. To members it is not there."""

    def __init__(
        self, settings: Settings, visitors: Visitors, connections: KeptConnections
    ) -> None:
        self._settings = settings
        self._visitors = visitors
        self._connections = connections

    def routes(self) -> list[BaseRoute]:
        return [CallRoute("/secrets", self.secrets_page)]

    async def secrets_page(self, request: Request) -> Response:
        visitor = await self._visitors.require(request)
        if visitor.role != "owner":
            raise HTTPException(404)
        return await run_in_threadpool(self._render, visitor)

    def _render(self, visitor: Visitor) -> Response:
        path = trace_path(self._settings.data_dir, visitor.organization_id)
        if path.exists():
            with self._connections.lend(path) as connection:
                found = list_secrets(path, connection)
        else:
            found = []
        return rendering.render(
            "secrets.html",
            visitor=visitor,
            headers=PRIVATE,
            found=found,
            is_on=self._settings.of(SEARCH),
            places=_PLACES,
            max_listed=MAX_LISTED,
        )
