"""``/sessions`` and ``/sessions/<id>``: pages for people, and with ``.json`` data for programs.

They are read and rendered in threads, one request of an organisation at a time.
"""

from collections.abc import Callable, Sequence
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import json_pages, rendering
from dashboard.call_filters import CallFilters, parse_call_filters
from dashboard.call_route import CallRoute
from dashboard.list_arguments import parse_limit, parse_number
from dashboard.rendering import PRIVATE
from dashboard.sessions.listing import ListView, make_menus
from dashboard.sessions.opened import NO_SESSION, find_no_notices, open_view
from dashboard.sessions.story.chapters import Notices
from dashboard.sessions.view import View, describe_tabs
from dashboard.trace_work import TracePages
from runtime import clock, extensions
from runtime.errors import InvalidInputError
from store.control.people import Caller
from store.control.sessions import Visitor
from store.traces.sessions.opened import find_reader, open_session
from store.traces.sessions.session_list import Listed, list_page
from store.traces.sessions.session_model import OpenedSession, SessionList
from store.traces.sessions.session_reader import SessionReader

PAGE_LIMIT = 50
JSON = ".json"
MAX_PAGES = 10_000
MAX_ID = 10**18 - 1

PARTS = ("asked", "said", "both")  # of a turn that is unfolded
# Of the story and the tabs beside it.
TEMPLATES = {"": "session.html", "tools": "session_tools.html", "calls": "session_calls.html"}

type FindDocument = Callable[[SessionReader | None, str], OpenedSession | None]


class SessionPages(TracePages):
    """The pages of sessions of the caller's organisation."""

    def routes(self) -> list[BaseRoute]:
        return [
            CallRoute("/sessions", self.list_page),
            CallRoute("/sessions.json", self.list_json),
            # An id is text of the client's, which may hold slashes.
            CallRoute("/sessions/{session_id:path}/turns/{usage_id:int}", self.turn_part),
            *(
                CallRoute(f"/sessions/{{session_id:path}}/{tab}", partial(self.tab_page, tab))
                for tab in filter(None, TEMPLATES)
            ),
            CallRoute("/sessions/{session_id:path}", self.session_page),
        ]

    async def list_page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        names = await self._visitors.read_credential_names(caller)
        cursor = request.query_params.get("cursor")
        by_cost, filters = _is_by_cost(request), _parse(request)

        def respond(reader: SessionReader | None) -> Response:
            # Read before the list: none is missed.
            last_id = 0 if reader is None else reader.find_last_id()
            listed = _list(reader, filters, PAGE_LIMIT, cursor, by_cost=by_cost)
            view = ListView(
                listed=listed,
                filters=filters,
                menus=make_menus(reader, filters, names),
                names=names,
                labels={} if reader is None else reader.list_labels(listed.sessions),
                is_first=cursor is None,
                by_cost=by_cost,
                last_id=last_id,
            )
            return rendering.render("sessions.html", visitor=caller, headers=PRIVATE, view=view)

        return await self._respond(caller, respond)

    async def list_json(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        limit = parse_limit(request.query_params)
        cursor = request.query_params.get("cursor")
        by_cost, filters = _is_by_cost(request), _parse(request)

        def respond(reader: SessionReader | None) -> Response:
            listed = _list(reader, filters, limit, cursor, by_cost=by_cost)
            return json_pages.respond(SessionList.make(listed))

        return await self._respond(caller, respond)

    async def session_page(self, request: Request) -> Response:
        """Serve a session as a page, or as JSON if ``.json`` follows its id."""
        return await self._serve(request, "", find_document=_find_document)

    async def tab_page(self, tab: str, request: Request) -> Response:
        """Serve another tab of a session's page: its tools, or its calls as a table."""
        return await self._serve(request, tab)

    async def _serve(
        self, request: Request, tab: str, find_document: FindDocument = lambda *_: None
    ) -> Response:
        """Return a tab of the page of a session, else the JSON document that ``find_document`` finds.

        Raises HTTPException if there is neither, InvalidInputError, NotSignedInError, sqlite3.Error."""
        caller = await self._visitors.require_caller(request)
        name = request.path_params["session_id"]
        page = parse_number(request.query_params, "page", 1, MAX_PAGES, "a number from 1 on")
        names = await self._visitors.read_credential_names(caller)
        find_notices = find_no_notices if tab else partial(self._find_notices, caller)

        def respond(reader: SessionReader | None) -> Response:
            if (view := open_view(reader, name, page, names, find_notices)) is not None:
                return self._render(caller, view, tab)
            if (document := find_document(reader, name)) is not None:
                return json_pages.respond(document)
            raise HTTPException(404, NO_SESSION)

        return await self._respond(caller, respond)

    async def turn_part(self, request: Request) -> Response:
        """Serve the HTML of a turn, shown below its line: its request, its response, or both."""
        caller = await self._visitors.require_caller(request)
        parts = request.query_params.get("parts", "said")
        if parts not in PARTS:
            raise InvalidInputError("parts must be asked, said or both", "parts")
        arguments = {"usage_id": min(request.path_params["usage_id"], MAX_ID), "parts": parts}
        return self._site.forwarding.respond(request, caller, "turn", arguments)

    def _find_notices(self, caller: Caller, usage_ids: Sequence[int]) -> Notices:
        """Return the warnings of extensions about calls, by row id. Raises sqlite3.Error."""
        found = extensions.call().call_notices(
            data_dir=self._site.settings.data_dir, caller=caller, usage_ids=usage_ids
        )
        ids = {usage_id for notices in found for usage_id in notices}
        return {
            usage_id: [notices[usage_id] for notices in found if usage_id in notices]
            for usage_id in ids
        }

    def _render(self, caller: Caller, view: View, tab: str) -> Response:
        return rendering.render(
            TEMPLATES[tab],
            visitor=caller,
            headers=PRIVATE,
            view=view,
            **describe_tabs(view.session, view.figures, view.annotations),
            base_url=self._site.settings.base_url,
            with_forms=isinstance(caller, Visitor),
        )

    async def _respond(
        self, caller: Caller, respond: Callable[[SessionReader | None], Response]
    ) -> Response:
        """Return the response that ``respond`` makes in a thread. Its reader is None if nothing was
        recorded.

        Raises sqlite3.Error, and HTTPException if too many requests wait."""
        return await self._work.run(caller, lambda connection: respond(find_reader(connection)))


def _find_document(reader: SessionReader | None, name: str) -> OpenedSession | None:
    """Return the session ``ID`` for the name ``ID.json``, or None. Raises sqlite3.Error."""
    found = open_session(reader, name.removesuffix(JSON)) if name.endswith(JSON) else None
    return None if found is None else OpenedSession.make(found)


def _list(
    reader: SessionReader | None,
    filters: CallFilters,
    limit: int,
    cursor: str | None,
    *,
    by_cost: bool,
) -> Listed:
    """Return a page of the list of sessions. Raises InvalidCursorError, sqlite3.Error."""
    return list_page(
        reader,
        limit,
        cursor,
        by_cost=by_cost,
        where=filters.walk_sessions("sessions.session_id"),
        is_walk=bool(filters.values or filters.period),
    )


def _parse(request: Request) -> CallFilters:
    """Return the filters in the query of an address. Raises InvalidInputError."""
    return parse_call_filters(request.query_params.multi_items(), clock.now())


def _is_by_cost(request: Request) -> bool:
    """Return whether the most expensive sessions come first. Raises InvalidInputError."""
    order = request.query_params.get("order", "time")
    if order not in ("time", "cost"):
        raise InvalidInputError("order must be time or cost", "order")
    return order == "cost"
