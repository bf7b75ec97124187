"""``/search`` and ``/search.json``: search in the texts of the caller's organisation's calls."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import json_pages, rendering
from dashboard.addresses import call_address, session_address
from dashboard.call_route import CallRoute
from dashboard.rendering import PRIVATE
from dashboard.search.arguments import Arguments, parse_arguments
from dashboard.search.documents import SearchNote, SearchResults
from dashboard.site import Site
from dashboard.trace_work import TracePages
from store.list_cursors import format_cursor
from store.traces.search.hit_model import SearchHit
from store.traces.search.notes import FoundNote, search_labels, search_notes
from store.traces.search.progress import Reach, read_reach
from store.traces.search.query import MAX_CHARS
from store.traces.search.reader import Found, SearchReader
from store.traces.search.snippets import split_marks

PATH = "/search"
ROLE_TITLES = {
    "user": "user",
    "assistant": "assistant",
    "tool_result": "tool result",
    "system": "system prompt",
    "tool": "tool",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """The result of a search. ``location`` is the address of a call or session, if the text is its id.
    ``notes`` and ``labels`` match the words; they are searched on the first page of a search without
    filters only."""

    found: Found
    reach: Reach
    location: str | None = None
    notes: Sequence[FoundNote] = ()
    labels: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing matched."""
        return not (self.found.hits or self.notes or self.labels)


class SearchPages(TracePages):
    """The search in the traces of the caller's organisation."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._is_on = site.settings.search_index

    def routes(self) -> list[BaseRoute]:
        return [CallRoute(PATH, self.page), CallRoute(f"{PATH}.json", self.json)]

    async def page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        arguments = parse_arguments(request.query_params)

        def respond(connection: sqlite3.Connection | None) -> Response:
            result = self._search(connection, arguments)
            if result.location is not None and arguments.is_first:
                return rendering.redirect(result.location)
            return rendering.render(
                "search.html",
                visitor=caller,
                headers=PRIVATE,
                arguments=arguments,
                result=result,
                is_on=self._is_on,
                roles=ROLE_TITLES,
                max_chars=MAX_CHARS,
                split_marks=split_marks,
                json_address=arguments.address(f"{PATH}.json"),
                next_address=_find_next(arguments, result.found),
            )

        return await self._work.run(caller, respond)

    async def json(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)
        arguments = parse_arguments(request.query_params)

        def respond(connection: sqlite3.Connection | None) -> Response:
            result = self._search(connection, arguments)
            place = result.found.next_place
            return json_pages.respond(
                SearchResults(
                    items=[SearchHit.make(each) for each in result.found.hits],
                    next_cursor=None if place is None else format_cursor(place),
                    has_more=place is not None,
                    location=result.location,
                    notes=[SearchNote.make(each) for each in result.notes],
                    labels=result.labels,
                    indexed=self._is_on,
                    searched_back_to=result.reach.back_to,
                    calls_not_searched=result.reach.left,
                )
            )

        return await self._work.run(caller, respond)

    def _search(self, connection: sqlite3.Connection | None, arguments: Arguments) -> _Result:
        nothing = _Result(found=Found(hits=[]), reach=Reach())
        if connection is None:
            return nothing
        reader = SearchReader(connection)
        if not reader.is_ready:
            return nothing
        location = _find_location(reader, arguments.text)
        result = replace(nothing, location=location)
        if arguments.is_first and not arguments.given:
            notes = search_notes(connection, arguments.query)
            labels = search_labels(connection, arguments.query)
            result = replace(result, notes=notes, labels=labels)
        if not self._is_on:
            return result
        found = reader.search(arguments.query, arguments.only, arguments.limit, arguments.place)
        return replace(result, found=found, reach=read_reach(connection))


def _find_location(reader: SearchReader, text: str) -> str | None:
    usage_id = reader.find_call(text)
    if usage_id is not None:
        return call_address(usage_id)
    session_id = reader.find_session(text)
    return None if session_id is None else session_address(session_id)


def _find_next(arguments: Arguments, found: Found) -> str | None:
    if found.next_place is None:
        return None
    return arguments.address(PATH, cursor=format_cursor(found.next_place))
