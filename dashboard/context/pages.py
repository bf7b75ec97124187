"""``/traces/usage/<id>/context`` and ``/sessions/<id>/context``: the contents of prompts."""

import sqlite3
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from conversations.cache_rules import read_own_rules
from conversations.context import Context, read_context
from conversations.prompt_bill import read_prompt_bill
from conversations.token_rules import read_token_rules
from dashboard import rendering
from dashboard.addresses import session_address
from dashboard.context import words
from dashboard.context.bar import WIDTH, find_colour, make_bar
from dashboard.context.session_page import render_session
from dashboard.context.sorting import SORTS, sort_rows
from dashboard.number_arguments import parse_number
from dashboard.rendering import PRIVATE
from dashboard.trace_work import TracePages, get_call
from store.control.people import Caller
from store.traces.call_reader import Call, CallReader

MAX_BODY_BYTES = 8 * 1024 * 1024  # parsed in some 0.5 s
MAX_ID = 10**18 - 1
LARGEST = 20
MAX_NAMES = 200
MAX_NUMBER = 10**6  # of a conversation


class ContextPages(TracePages):
    """The pages of contexts of the caller's organisation."""

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/traces/usage/{usage_id:int}/context", self.call_page),
            # An id is text of the client's, which may hold slashes.
            Route("/sessions/{session_id:path}/context", self.session_page),
        ]

    async def call_page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        usage_id = min(request.path_params["usage_id"], MAX_ID)
        sort = request.query_params.get("sort", SORTS[0])

        def respond(reader: CallReader) -> Response:
            call = get_call(reader, usage_id)
            return _render_call(caller, call, _read(call, reader), sort)

        return await self._work.run_on_calls(caller, respond)

    async def session_page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        session_id = request.path_params["session_id"]
        number = parse_number(
            request.query_params, "conversation", 1, MAX_NUMBER, "a number from 1 on"
        )

        def respond(connection: sqlite3.Connection | None) -> Response:
            return render_session(caller, connection, session_id, number)

        return await self._work.run(caller, respond)


def _read(call: Call, reader: CallReader) -> Context | None:
    """Return the context of a call, None where its request was not kept or is too large."""
    if call.request is None or call.request.length > MAX_BODY_BYTES:
        return None
    entry = call.entry
    day = datetime.fromisoformat(entry.created_at).date()
    return read_context(
        reader.read_body(call.id, "request", MAX_BODY_BYTES),
        read_prompt_bill(entry),
        entry.model,
        read_own_rules().find(entry.model, day),
    )


def _render_call(caller: Caller, call: Call, context: Context | None, sort: str) -> Response:
    session_id = call.entry.session_id
    rows = [] if context is None else context.by_category()
    names = [] if context is None else context.by_name()
    servers = [] if context is None else context.by_server()
    return rendering.render(
        "context.html",
        visitor=caller,
        headers=PRIVATE,
        call=call,
        context=context,
        rows=sort_rows(rows, sort, words.TITLES),
        names=sort_rows(names, sort, words.TITLES)[:MAX_NAMES],
        name_count=len(names),
        servers=servers if any(row.name for row in servers) else [],
        largest=[] if context is None else context.largest(LARGEST),
        bar=make_bar(rows),
        bar_width=WIDTH,
        colour=find_colour,
        place=words.describe_place,
        address=words.make_address,
        titles=words.TITLES,
        singular=words.ONE,
        notes=words.NOTES,
        billed_as=words.PARTS,
        ratios=read_token_rules().bytes_per_token,
        session=session_id and session_address(session_id),
    )
