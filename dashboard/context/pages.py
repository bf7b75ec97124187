"""``/traces/usage/<id>/context`` and ``/sessions/<id>/context``: the contents of prompts.

Query processes read and render them.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard.call_route import CallRoute
from dashboard.list_arguments import parse_number
from dashboard.site import Site

MAX_ID = 10**18 - 1
MAX_NUMBER = 10**6  # of a conversation


class ContextPages:
    """The pages of the contents of prompts, for calls and sessions of the caller's organisation."""

    def __init__(self, site: Site) -> None:
        self._visitors = site.visitors
        self._forwarding = site.forwarding

    def routes(self) -> list[BaseRoute]:
        return [
            CallRoute("/traces/usage/{usage_id:int}/context", self.call_page),
            # An id is text of the client's, which may hold slashes.
            CallRoute("/sessions/{session_id:path}/context", self.session_page),
        ]

    async def call_page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        usage_id = min(request.path_params["usage_id"], MAX_ID)
        sort = request.query_params.get("sort", "tokens")
        arguments = {"usage_id": usage_id, "sort": sort}
        return self._forwarding.respond(request, caller, "context", arguments)

    async def session_page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        session_id = request.path_params["session_id"]
        number = parse_number(
            request.query_params, "conversation", 1, MAX_NUMBER, "a number from 1 on"
        )
        arguments = {"session_id": session_id, "number": number}
        return self._forwarding.respond(request, caller, "session_context", arguments)
