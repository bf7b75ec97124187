"""``/sessions`` and ``/sessions/<id>``: pages for people, and with ``.json`` data for programs.

Reading and rendering are done in threads, one request of an organisation at a time.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from dashboard import rendering
from dashboard.addresses import session_address
from dashboard.cache_breaks import sum_extra_cost
from dashboard.call.fact import calls_address
from dashboard.kept_connections import KeptConnections
from dashboard.number_arguments import parse_limit
from dashboard.rendering import PRIVATE
from dashboard.sessions.agents import make_tree
from dashboard.sessions.cursors import Place, format_cursor, parse_cursor
from dashboard.sessions.strip import DRAWING, make_strip
from dashboard.sessions.turns import make_lines
from dashboard.trace_work import TraceWork
from dashboard.visitors import Visitors
from runtime import clock
from runtime.errors import InvalidInputError
from runtime.settings import Settings
from store.control.people import Caller
from store.traces import unnamed_sessions
from store.traces.cache_breaks import BrokenCall
from store.traces.session_reader import Agent, Session, SessionReader, Turn

PAGE_LIMIT = 50
COST_PERIOD = timedelta(days=7)  # of the sessions that are listed by cost
JSON = ".json"
NO_SESSION = "There is no such session, or retention has removed its calls."


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A page of the list, newest first."""

    sessions: list[Session]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One session with its agents, its last turns and all calls that broke the cache."""

    session: Session
    agents: list[Agent]
    turns: list[Turn]
    breaks: list[BrokenCall]


class SessionPages:
    """The pages of sessions of the caller's organisation."""

    def __init__(
        self, settings: Settings, visitors: Visitors, connections: KeptConnections
    ) -> None:
        self._visitors = visitors
        self._work = TraceWork(settings, connections)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/sessions", self.list_page),
            Route("/sessions.json", self.list_json),
            # An id is text of the client's, which may hold slashes.
            Route("/sessions/{session_id:path}", self.session_page),
        ]

    async def list_page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        before, by_cost = _parse_place(request), _is_by_cost(request)

        def respond(reader: SessionReader | None) -> Response:
            return rendering.render(
                "sessions.html",
                visitor=caller,
                headers=PRIVATE,
                listed=_list(reader, PAGE_LIMIT, before, by_cost=by_cost),
                is_first=before is None,
                by_cost=by_cost,
                address=session_address,
            )

        return await self._respond(caller, respond)

    async def list_json(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        limit = parse_limit(request.query_params)
        before, by_cost = _parse_place(request), _is_by_cost(request)

        def respond(reader: SessionReader | None) -> Response:
            listed = _list(reader, limit, before, by_cost=by_cost)
            return JSONResponse(
                {
                    "items": [describe_session(each) for each in listed.sessions],
                    "nextCursor": listed.next_cursor,
                    "hasMore": listed.next_cursor is not None,
                },
                headers=PRIVATE,
            )

        return await self._respond(caller, respond)

    async def session_page(self, request: Request) -> Response:
        """Serve a session as a page, or in JSON where its id is followed by ``.json``."""
        caller = await self._visitors.require_caller(request)
        name = request.path_params["session_id"]

        def respond(reader: SessionReader | None) -> Response:
            if (found := _open(reader, name)) is not None:
                return _render_session(caller, found)
            if name.endswith(JSON) and (found := _open(reader, name.removesuffix(JSON))):
                return JSONResponse(describe_opened(found), headers=PRIVATE)
            raise HTTPException(404, NO_SESSION)

        return await self._respond(caller, respond)

    async def _respond(
        self, caller: Caller, respond: Callable[[SessionReader | None], Response]
    ) -> Response:
        """Return what is made in a thread of the caller's organisation. There is no reader while
        nothing has been recorded.

        Raises sqlite3.Error, and HTTPException where too many requests wait."""

        def run(connection: sqlite3.Connection | None) -> Response:
            reader = None if connection is None else SessionReader(connection)
            return respond(reader if reader is not None and reader.is_ready else None)

        return await self._work.run(caller, run)


def describe_session(session: Session) -> dict[str, Any]:
    """Return a session as a JSON object."""
    return {
        "session_id": session.session_id,
        "title": session.title,
        "started_at": session.started_at,
        "ended_at": session.ended_at,
        "calls": session.calls,
        "errors": session.errors,
        "cost_cents": round(session.cost_cents, 6),
        "cache_breaks": session.cache_breaks,
    }


def describe_opened(opened: Opened) -> dict[str, Any]:
    """Return a session with its agents and turns as a JSON object."""
    return describe_session(opened.session) | {
        "cache_breaks": [
            {
                "entry_id": each.entry_id,
                "cause": each.found.cause,
                "detail": each.found.detail,
                "tokens": each.found.tokens,
                "extra_cost_cents": _round(each.found.extra_cost_cents),
                "estimated": each.found.estimated,
            }
            for each in opened.breaks
        ],
        "agents": [
            {
                "agent_id": agent.agent_id,
                "parent_agent_id": agent.parent_agent_id,
                "calls": agent.calls,
                "cost_cents": round(agent.cost_cents, 6),
            }
            for agent in opened.agents
        ],
        "turns": [
            {
                "id": turn.id,
                "entry_id": turn.entry_id,
                "agent_id": turn.agent_id,
                "created_at": turn.created_at,
                "model": turn.model,
                "cost_cents": turn.cost_cents,
                "outcome": turn.outcome,
            }
            for turn in opened.turns
        ],
    }


def _round(cents: float | None) -> float | None:
    return None if cents is None else round(cents, 6)


def _render_session(caller: Caller, opened: Opened) -> Response:
    session = opened.session
    return rendering.render(
        "session.html",
        visitor=caller,
        headers=PRIVATE,
        session=session,
        agents=opened.agents,
        lines=make_lines(opened.turns, session.calls - len(opened.turns) + 1),
        bars=make_strip(opened.turns),
        drawing=DRAWING,
        tree=make_tree(opened.agents),
        break_cents=sum_extra_cost(opened.breaks),
        calls_address=_list_address(session.session_id),
        address=session_address(session.session_id),
        session_address=session_address(session.session_id),
        json_address=f"{session_address(session.session_id)}{JSON}",
    )


def _list_address(session_id: str) -> str:
    """Return the address of the calls of a session as a table."""
    first_id = unnamed_sessions.parse_first_id(session_id)
    if first_id is None:
        return calls_address("session_id", session_id)
    through = {"table": "unnamed_calls", "column": "first_id", "value": str(first_id)}
    return calls_address("_through", orjson.dumps(through).decode())


def _list(
    reader: SessionReader | None, limit: int, before: Place | None, *, by_cost: bool
) -> Listed:
    if by_cost:  # one page: the most expensive sessions of the week
        since = clock.format_ms(clock.now() - COST_PERIOD)
        sessions = [] if reader is None else reader.list_most_expensive(since, limit)
        return Listed(sessions=sessions, next_cursor=None)
    found = [] if reader is None else reader.list_sessions(limit + 1, before)
    sessions = found[:limit]
    cursor = None
    if len(found) > limit:
        cursor = format_cursor((sessions[-1].ended_at, sessions[-1].session_id))
    return Listed(sessions=sessions, next_cursor=cursor)


def _open(reader: SessionReader | None, session_id: str) -> Opened | None:
    session = None if reader is None else reader.find(session_id)
    if reader is None or session is None:
        return None
    return Opened(
        session=session,
        agents=reader.list_agents(session_id),
        turns=reader.list_turns(session_id),
        breaks=reader.list_breaks(session_id),
    )


def _parse_place(request: Request) -> Place | None:
    """Return the place behind which a page of the list begins. Raises InvalidCursorError."""
    cursor = request.query_params.get("cursor")
    return None if cursor is None else parse_cursor(cursor)


def _is_by_cost(request: Request) -> bool:
    """Return whether the list is in order of cost. Raises InvalidInputError."""
    order = request.query_params.get("order", "time")
    if order not in ("time", "cost"):
        raise InvalidInputError("order must be time or cost", "order")
    return order == "cost"
