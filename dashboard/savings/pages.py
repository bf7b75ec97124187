"""``/savings`` and ``/sessions/<id>/savings``: possible savings, as pages and as JSON."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from conversations.savings.breaks import EXPIRED, HOUR_S
from conversations.savings.kinds import IDLE_GAP
from dashboard import json_pages, rendering
from dashboard.call_route import CallRoute
from dashboard.overview.periods import DEFAULT_SPAN, Period, list_segments, parse_span
from dashboard.rendering import PRIVATE
from dashboard.savings.documents import Savings, SavingsSession, SessionSavings
from dashboard.savings.findings import Findings, make_findings
from dashboard.savings.folding import fold
from dashboard.savings.tab_figures import TabFigures, read_tab_figures
from dashboard.sessions.opened import NO_SESSION
from dashboard.sessions.view import describe_tabs
from dashboard.trace_work import TracePages
from runtime import clock
from store.control.people import Caller
from store.traces.calls.cache_breaks import CacheBreak, read_session_breaks
from store.traces.savings.savings import Looked
from store.traces.savings.savings_reader import Group, SavingsReader, SessionSum
from store.traces.savings.tools_reader import ToolFilter, ToolsReader
from store.traces.sessions.opened import find_reader

TOP_SESSIONS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPeriod:
    """The findings of a period. ``due`` is the number of sessions that have not been analysed yet;
    ``paid_cents`` is the cost of all calls; ``tabs`` are the main figures of the neighbouring pages."""

    period: Period
    findings: Findings = field(default_factory=Findings)
    sessions: Sequence[SessionSum] = ()
    due: int = 0
    paid_cents: float = 0.0
    tabs: TabFigures = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSession:
    """The findings of one session; ``looked`` is None if it has not been analysed yet. ``uncounted`` are
    cache breaks after pauses that are not part of any finding; ``tabs`` are template variables."""

    session_id: str
    tabs: Mapping[str, Any]
    findings: Findings
    looked: Looked | None
    uncounted: Sequence[CacheBreak]


class SavingsPages(TracePages):
    """The pages about possible savings of the caller's organisation."""

    def routes(self) -> list[BaseRoute]:
        return [
            CallRoute("/savings", self.period_page),
            CallRoute("/savings.json", self.period_json),
            # An id is text of the client's, which may hold slashes.
            CallRoute("/sessions/{session_id:path}/savings", self.session_page),
            CallRoute("/sessions/{session_id:path}/savings.json", self.session_json),
        ]

    async def period_page(self, request: Request) -> Response:
        return await self._answer(
            request, lambda caller, db: _render_period(caller, _read_period(db, request), request)
        )

    async def period_json(self, request: Request) -> Response:
        return await self._answer(
            request, lambda _, db: json_pages.respond(_describe_period(_read_period(db, request)))
        )

    async def session_page(self, request: Request) -> Response:
        return await self._answer(
            request, lambda caller, db: _render_session(caller, _read_session(db, request))
        )

    async def session_json(self, request: Request) -> Response:
        return await self._answer(
            request, lambda _, db: json_pages.respond(_describe_session(_read_session(db, request)))
        )


def _render_period(caller: Caller, found: _OfPeriod, request: Request) -> Response:
    arguments, period = request.query_params, found.period
    opened, is_whole = arguments.get("open"), arguments.get("all") == "1"

    def address(**others: str) -> str:
        return f"/savings?{urlencode({'period': period.span, **others}, errors='replace')}"

    return rendering.render(
        "savings.html",
        visitor=caller,
        headers=PRIVATE,
        period=period,
        periods=list_segments(lambda span: f"/savings?period={span}", period.span),
        found=found,
        savings=fold(found.findings.savings, opened, is_whole=is_whole),
        expensive=fold(found.findings.expensive, opened, is_whole=is_whole),
        address=address,
    )


def _describe_period(found: _OfPeriod) -> Savings:
    return Savings.make(
        found.findings,
        span=found.period.span,
        first_day=found.period.first.isoformat(),
        last_day=found.period.last.isoformat(),
        sessions_due=found.due,
        sessions=[
            SavingsSession(session_id=each.session_id, cost_cents=each.cents)
            for each in found.sessions
        ],
    )


def _render_session(caller: Caller, found: _OfSession) -> Response:
    return rendering.render(
        "session_savings.html", visitor=caller, headers=PRIVATE, **found.tabs, found=found
    )


def _describe_session(found: _OfSession) -> SessionSavings:
    looked = found.looked
    return SessionSavings.make(
        found.findings,
        session_id=found.session_id,
        method=None if looked is None else looked.method,
        computed_at=None if looked is None else looked.computed_at,
        calls=0 if looked is None else looked.calls,
    )


def _read_period(connection: sqlite3.Connection | None, request: Request) -> _OfPeriod:
    """Return the findings of the period in an address. Raises InvalidInputError, sqlite3.Error."""
    arguments = request.query_params
    span = arguments.get("period") or arguments.get("span", DEFAULT_SPAN)
    period = parse_span(span, clock.now())
    reader = None if connection is None else SavingsReader(connection)
    if connection is None or reader is None or not reader.is_ready:
        return _OfPeriod(period=period)
    first, last = period.first, period.last
    return _OfPeriod(
        period=period,
        findings=make_findings(reader.list_groups(first, last), reader),
        sessions=reader.list_sessions(first, last, TOP_SESSIONS),
        due=reader.count_due(),
        paid_cents=ToolsReader(connection).sum_paid(ToolFilter(first=first, last=last)),
        tabs=read_tab_figures(connection, first, last),
    )


def _read_session(connection: sqlite3.Connection | None, request: Request) -> _OfSession:
    """Return the findings of the session in an address. Raises HTTPException, sqlite3.Error."""
    session_id = request.path_params["session_id"]
    reader = None if connection is None else SavingsReader(connection)
    sessions = find_reader(connection)
    session = None if sessions is None else sessions.find(session_id)
    if reader is None or sessions is None or session is None:
        raise HTTPException(404, NO_SESSION)
    groups = reader.list_session_groups(session_id)
    return _OfSession(
        session_id=session_id,
        tabs=describe_tabs(
            session, sessions.read_figures(session_id), sessions.read_annotations(session_id)
        ),
        findings=make_findings(groups, reader),
        uncounted=_list_uncounted(connection, session_id, groups),
        looked=reader.find_looked(session_id),
    )


def _list_uncounted(
    db: sqlite3.Connection | None, session_id: str, groups: Sequence[Group]
) -> Sequence[CacheBreak]:
    """Return the cache breaks after pauses of up to an hour that are not findings.

    They are not if a lifetime of an hour would not have made the session cheaper."""
    if db is None or any(group.finding == IDLE_GAP.name for group in groups):
        return ()
    breaks = (each.found for each in read_session_breaks(db, session_id))
    return [
        each
        for each in breaks
        if each.cause == EXPIRED and each.gap_ms <= 1000 * HOUR_S and each.extra_cost_cents
    ]
