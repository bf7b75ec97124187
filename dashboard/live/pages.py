"""``/live``: event streams for pages that follow new calls, and the pages of calls in flight."""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import rendering
from dashboard.addresses import CALL_ID, call_address
from dashboard.call_route import CallRoute
from dashboard.live.feeds import Feed, Feeds
from dashboard.live.growing_calls import GrowingCall, GrowingCalls, read_more
from dashboard.live.growth import GrowingResponse, Sent, describe_status
from dashboard.live.in_flight import Flights, InFlight
from dashboard.live.streams import (
    BEAT,
    END,
    HEARTBEAT_S,
    Check,
    Events,
    Streams,
    format_event,
    make_check,
)
from dashboard.rendering import PRIVATE
from dashboard.site import Site
from dashboard.trace_work import TracePages
from store.control.people import Caller
from store.spool.format import SpoolError
from store.spool.reader import InFlightFile
from store.traces.calls.call_reader import CallReader

GROWTH_EVERY_S = 0.3
STORED_WITHIN_S = 10.0  # after its response ended, a call is in the database
_NUMBER = re.compile(CALL_ID)
_GONE = "There is no such call: it was never made, or retention has removed it."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """The events that a page wants: calls after an id, of one session or of all, and calls in flight or
    not."""

    after_id: int
    session_id: str | None
    with_flights: bool

    @classmethod
    def read(cls, request: Request) -> "_Wish":
        given = request.query_params
        last = request.headers.get("last-event-id") or given.get("after", "")
        return cls(
            after_id=int(last) if _NUMBER.fullmatch(last) else 0,
            session_id=given.get("session") or None,
            with_flights=given.get("flights") == "1",
        )


class LivePages(TracePages):
    """The live pages and event streams of the caller's organisation."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.feeds = Feeds(site.settings.data_dir, site.spool, site.connections)
        self.streams = Streams()
        self._growing = GrowingCalls()

    def routes(self) -> list[BaseRoute]:
        return [
            CallRoute("/live/events", self.follow),
            CallRoute("/live/{entry_id}", self.call_page),
            CallRoute("/live/{entry_id}/events", self.follow_call),
        ]

    def stop(self) -> None:
        """End all streams, so that open pages do not delay the stop of the service."""
        self.streams.stop()

    async def follow(self, request: Request) -> Response:
        """Stream events: when calls were recorded, and when calls in flight begin and end."""
        caller = await self._visitors.require_caller(request)
        check = make_check(self._visitors, request, caller)
        events = self._follow(caller, _Wish.read(request), check)
        return self.streams.respond(request, caller, events)

    async def _follow(self, caller: Caller, wish: _Wish, check: Check) -> Events:
        sent_id, sent = wish.after_id, None if wish.with_flights else Flights()
        with self.feeds.listen(caller.organization_id) as (feed, something_new):
            while True:
                await self.streams.wait(something_new, HEARTBEAT_S)
                is_new = something_new.is_set()
                something_new.clear()
                if not await check():
                    yield END
                    return
                if not is_new:
                    yield BEAT
                    continue
                if feed.has_new(sent_id, wish.session_id):
                    yield format_event("calls", {}, feed.last_id)
                sent_id = max(sent_id, feed.last_id)
                if wish.with_flights and (flights := _choose(feed, wish)) != sent:
                    sent = flights
                    yield format_event("flights", _describe_flights(flights))

    async def call_page(self, request: Request) -> Response:
        """Show a call in flight as far as it was received; redirect to the call's page if it has ended."""
        caller = await self._visitors.require_caller(request)
        entry_id = request.path_params["entry_id"]
        found = await run_in_threadpool(self._open, caller, entry_id)
        if found is None:
            return await self._lead_to_stored(caller, entry_id)
        call, response = found
        return rendering.render(
            "live_call.html",
            visitor=caller,
            headers=PRIVATE,
            call=call,
            blocks=response.parts,
            status_text=describe_status(response),
        )

    async def follow_call(self, request: Request) -> Response:
        """Stream the response of a call in flight as it grows, starting from its beginning."""
        caller = await self._visitors.require_caller(request)
        check = make_check(self._visitors, request, caller)
        events = self._grow(caller, request.path_params["entry_id"], check)
        return self.streams.respond(request, caller, events)

    async def _grow(self, caller: Caller, entry_id: str, check: Check) -> Events:
        file = await run_in_threadpool(self._site.spool.find, caller.organization_id, entry_id)
        if file is not None:
            with suppress(OSError, SpoolError), self._growing.open(file) as call:  # it has ended
                async for event in self._read_on(call, check):
                    yield event
                    if event == END:
                        return
        address = await self._wait_until_stored(caller, entry_id)
        yield format_event("ended", {"address": address})

    async def _read_on(self, call: GrowingCall, check: Check) -> Events:
        """Yield events with what is added to a spool file, until its call has ended. Raises OSError."""
        sent, size, silent_s = Sent(), -1, 0.0
        has_ended = False
        while not has_ended:
            has_ended = call.has_ended  # before it is read, so that its end is read too
            has_grown = call.size != size
            if has_grown or silent_s >= HEARTBEAT_S:
                silent_s = 0.0
                if not await check():
                    yield END
                    return
                if has_grown:
                    size = call.size
                    yield format_event("response", await call.read(sent))
                else:
                    yield BEAT
            await self.streams.wait(asyncio.Event(), GROWTH_EVERY_S)
            silent_s += GROWTH_EVERY_S

    async def _wait_until_stored(self, caller: Caller, entry_id: str) -> str | None:
        """Return the address of the page of a call that has ended, or None if it is not stored.

        None means that the call is unknown, or was not stored within ``STORED_WITHIN_S``."""
        for _ in range(round(STORED_WITHIN_S / GROWTH_EVERY_S)):
            # Looked at first: what leaves the spool is stored already.
            is_waiting = await run_in_threadpool(
                self._site.spool.is_waiting, caller.organization_id, entry_id
            )
            usage_id = await self._find_stored(caller, entry_id)
            if usage_id is not None:
                return call_address(usage_id)
            if not is_waiting:
                break
            await self.streams.wait(asyncio.Event(), GROWTH_EVERY_S)
        return None

    async def _find_stored(self, caller: Caller, entry_id: str) -> int | None:
        return await self._work.run(
            caller, lambda db: None if db is None else CallReader(db).find_id(entry_id)
        )

    async def _lead_to_stored(self, caller: Caller, entry_id: str) -> Response:
        address = await self._wait_until_stored(caller, entry_id)
        if address is None:
            raise HTTPException(404, _GONE)
        return rendering.redirect(address)

    def _open(self, caller: Caller, entry_id: str) -> tuple[InFlight, GrowingResponse] | None:
        file = self._site.spool.find(caller.organization_id, entry_id)
        if file is None:
            return None
        response = GrowingResponse()
        try:
            with InFlightFile(file) as opened:
                read_more(opened, response)
            call = self._site.spool.describe(file)
        except (OSError, SpoolError):  # it has ended
            return None
        return None if call is None else (call, response)


def _choose(feed: Feed, wish: _Wish) -> Flights:
    if wish.session_id is None:
        return feed.flights
    return feed.flights.of_session(wish.session_id)


def _describe_flights(flights: Flights) -> dict[str, Any]:
    """Return the data of an event: the number of calls in flight, and their list as HTML."""
    return {
        "count": flights.count,
        "html": rendering.render_part("_in_flight.html", flights=flights),
    }
