"""Pages of tables and of recorded text: the half in the web process, which forwards to query
processes.

If a page of text takes too long with colours, Markdown and differences, it is made again without these,
and also at each request in the next ``REMEMBERED_S`` seconds, so that not every visit waits for the
deadline.
"""

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dashboard import rendering
from dashboard.queries.page_request import PageName, PageRequest
from dashboard.queries.processes import NoProcessError
from dashboard.queries.query import Query
from dashboard.queries.query_proxy import (
    MAX_DOWNLOADS,
    DownloadsError,
    QueryProxy,
    RefusedError,
    StoppedError,
)
from dashboard.visitors import Visitors
from runtime.organization_locks import BusyError
from runtime.settings import Settings
from store.control.people import Caller

REMEMBERED_S, MAX_REMEMBERED = 600.0, 1_000
_BUSY = "Earlier requests of your organisation are still running. Try again in a moment."
_NO_PROCESS = "Pages of calls and tables cannot be made at the moment. Try again in a moment."
_STOPPED = (
    503,
    "This page takes too long to make, or too much memory. Download the bodies of the call instead.",
)
_STOPPED_QUERY = (  # the status is Datasette's
    400,
    "The query was stopped: it took too long, or too much memory. Where it is quick otherwise, try again in"
    " a moment. If not, ask for less: a condition on id or created_at, fewer or shorter values, or"
    " usage_hourly for sums over a long time.",
)
_REPEATEDLY = (
    "Queries of your organisation had to be stopped repeatedly. Wait {} s, and ask for less."
)
_DOWNLOADS = (
    f"{MAX_DOWNLOADS} downloads of your organisation are still going on. Start this one when one of them has"
    " ended."
)

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SlowPages:
    """The pages that took too long in the last ``REMEMBERED_S`` seconds. ``clock_s`` is a monotonic clock."""

    clock_s: Callable[[], float] = time.monotonic
    _until_s: OrderedDict[tuple[str, str], float] = field(default_factory=OrderedDict)

    def add(self, page: PageRequest) -> None:
        """Remember that a page took too long."""
        self._until_s[_identify(page)] = self.clock_s() + REMEMBERED_S
        if len(self._until_s) > MAX_REMEMBERED:
            self._until_s.popitem(last=False)

    def __contains__(self, page: PageRequest) -> bool:
        return self._until_s.get(_identify(page), 0.0) > self.clock_s()


def _identify(page: PageRequest) -> tuple[str, str]:
    return page.caller.organization_id, json.dumps([page.name, page.arguments], sort_keys=True)


class PageForwarding:
    """Forwards requests for pages of tables and of recorded text to query processes."""

    def __init__(self, settings: Settings, visitors: Visitors, queries: QueryProxy) -> None:
        self._settings = settings
        self._visitors = visitors
        self._queries = queries
        self._slow = SlowPages()

    def respond(
        self,
        request: Request,
        caller: Caller,
        name: PageName,
        arguments: Mapping[str, Any],
        body: bytes = b"",
    ) -> Response:
        """Return a response that is made by a query process while it is sent.

        Sending it raises HTTPException, and whatever the check of the caller raises."""
        page = self.describe(request, caller, name, arguments)
        return _PageResponse(self, request, page, body)

    async def fetch(
        self, request: Request, caller: Caller, name: PageName, arguments: Mapping[str, Any]
    ) -> Any:
        """Return a part of a page, parsed from JSON. Raises HTTPException, and whatever the caller's check
        raises."""
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        page = self.describe(request, caller, name, arguments)
        await self.forward(request, page, b"", _never_leave, collect)
        start, *parts = messages or [{}]
        # One that could not be finished is cut.
        is_whole = bool(parts) and not parts[-1].get("more_body", False)
        if not is_whole or start["status"] != 200:
            raise HTTPException(503, _NO_PROCESS, {"retry-after": "3"})
        return json.loads(b"".join(part["body"] for part in parts))

    async def forward(
        self, request: Request, page: PageRequest, body: bytes, receive: Receive, send: Send
    ) -> None:
        """Have a query process make a page, and send it. Raises HTTPException.

        A page of text that takes too long is made again without colours, Markdown and differences."""
        with _as_http_errors(_STOPPED_QUERY if page.is_of_tables else _STOPPED):
            if page not in self._slow:
                try:
                    query = self._make_query(request, page, body)
                    return await self._queries.forward(query, receive, send)
                except StoppedError:
                    if page.is_of_tables:
                        raise
                    self._slow.add(page)
            query = self._make_query(request, replace(page, is_plain=True), body)
            await self._queries.forward(query, receive, send)

    def _make_query(self, request: Request, page: PageRequest, body: bytes) -> Query:
        return Query(
            scope=request.scope,
            page=page,
            check=lambda: self._visitors.check_caller(request, page.caller),
            body=body,
        )

    def describe(
        self, request: Request, caller: Caller, name: PageName, arguments: Mapping[str, Any]
    ) -> PageRequest:
        """Return the request for a page as query processes get it, with its caller."""
        return PageRequest(
            name=name,
            caller=caller,
            base_url=self._settings.base_url,
            vendor=self._settings.vendor,
            is_for_program=rendering.is_for_program(request),
            arguments=arguments,
        )


class _PageResponse(Response):
    """A response that a query process makes while it is sent."""

    def __init__(
        self, forwarding: PageForwarding, request: Request, page: PageRequest, body: bytes
    ) -> None:
        super().__init__()
        self._forwarding = forwarding
        self._request = request
        self._page = page
        self._sent = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._forwarding.forward(self._request, self._page, self._sent, receive, send)


async def _never_leave() -> Message:
    await asyncio.Event().wait()
    return {"type": "http.disconnect"}


@contextmanager
def _as_http_errors(stopped: tuple[int, str]) -> Iterator[None]:
    """Raise HTTPException in place of the errors of the query proxy.

    ``stopped`` has status and text for a page that took too long."""
    try:
        yield
    except BusyError as error:
        raise HTTPException(503, _BUSY, {"retry-after": "3"}) from error
    except NoProcessError as error:
        logger.error("There is no query process: %s", error)  # noqa: TRY400 - the message is enough
        raise HTTPException(503, _NO_PROCESS, {"retry-after": "3"}) from error
    except RefusedError as error:
        headers = {"retry-after": str(error.wait_s)}
        raise HTTPException(429, _REPEATEDLY.format(error.wait_s), headers) from error
    except DownloadsError as error:
        raise HTTPException(429, _DOWNLOADS, {"retry-after": "10"}) from error
    except StoppedError as error:
        raise HTTPException(*stopped) from error
