"""The dashboard application: sign-in, home, settings and the traces of each organisation.

A machine of the service that has no users and no settings serves only the pages of recorded calls.
"""

import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dashboard import rendering
from dashboard.annotations.pages import AnnotationPages
from dashboard.budgets.deliveries import BudgetDeliveries
from dashboard.budgets.webhook_client import WebhookClient
from dashboard.calls.call_pages import CallTabPages
from dashboard.calls.list_pages import CallListPages
from dashboard.context.pages import ContextPages
from dashboard.export.pages import SharePages
from dashboard.help.pages import HelpPages
from dashboard.home.pages import HomePages
from dashboard.kept_connections import KeptConnections
from dashboard.limits.pages import LimitPages
from dashboard.live.in_flight import SpoolWatch
from dashboard.live.pages import LivePages
from dashboard.mail.mailer import Mailer
from dashboard.overview.pages import OverviewPages
from dashboard.page_forwarding import PageForwarding
from dashboard.prices import PagePrices
from dashboard.queries.query_proxy import QueryProxy
from dashboard.savings.model_pages import ModelPages
from dashboard.savings.pages import SavingsPages
from dashboard.search.pages import SearchPages
from dashboard.sessions.pages import SessionPages
from dashboard.settings.pages import SettingsPages
from dashboard.sign_in.pages import SignInPages
from dashboard.site import Site
from dashboard.status_line.memory import StatusMemory
from dashboard.status_line.pages import StatusLinePages
from dashboard.tools.pages import ToolPages
from dashboard.traces import Traces
from dashboard.visitors import ControlPool, NotSignedInError, TooManyBadKeysError, Visitors
from runtime import address_space, extensions
from runtime.attempts import AttemptLimit
from runtime.errors import CODES, OTHER_CODE, ControlError, NotFoundError, as_sentence
from runtime.settings import QUERY_SOCKETS_VARIABLE, Settings

HERE = Path(__file__).parent

logger = logging.getLogger(__name__)

type Handler = Callable[[Request, Any], Awaitable[Response]]


class CallPages:
    """The pages of recorded calls, with their routes. Enter ``running`` before the first request.

    ``has_people``: pages for signing in and for settings exist too."""

    def __init__(self, settings: Settings, visitors: Visitors, *, has_people: bool = False) -> None:
        self.visitors = visitors
        sockets = os.environ.get(QUERY_SOCKETS_VARIABLE)
        self._queries = QueryProxy(Path(sockets) if sockets else None, settings.query_processes)
        self._site = site = Site(
            settings=settings,
            visitors=visitors,
            connections=KeptConnections(),
            forwarding=PageForwarding(settings, visitors, self._queries),
            prices=PagePrices(settings.prices),
            spool=SpoolWatch(settings.proxy_spool_path, settings.spool_path),
            has_people=has_people,
        )
        self._live = LivePages(site)
        self._traces = Traces(site)
        # An address is that of the first page that has it: an id of a session may hold slashes.
        self._routes: list[BaseRoute] = [
            *HomePages(site).routes(),
            *OverviewPages(site).routes(),
            *LimitPages(site).routes(),
            *self._live.routes(),
            *ContextPages(site).routes(),
            *ModelPages(site).routes(),
            *SavingsPages(site).routes(),
            *ToolPages(site).routes(),
            *SharePages(site).routes(),
            *SearchPages(site).routes(),
            *chain(*extensions.call().pages(site=site)),
            *SessionPages(site).routes(),
            *CallListPages(site).routes(),
            *CallTabPages(site).routes(),
            *self._traces.routes(),
            Route("/favicon.ico", _serve_icon),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    def routes(self) -> list[BaseRoute]:
        return self._routes

    def end_streams(self) -> None:
        """End the event streams of open pages, which would otherwise last as long as the pages."""
        self._live.stop()

    @contextmanager
    def running(self) -> Iterator[None]:
        with closing(self._site.connections), closing(self._queries), self._traces.running():
            yield

    def exception_handlers(self) -> Mapping[Any, Handler]:
        """Return the handlers for the application that mounts the routes."""
        return {
            NotSignedInError: _require_sign_in,
            TooManyBadKeysError: _refuse_bad_keys,
            HTTPException: self._refuse,
            ControlError: self._refuse_caller,
            sqlite3.Error: _report_unavailable,
            MemoryError: _report_short_memory,
            RuntimeError: _report_short_memory,
            Exception: _report_failure,
        }

    async def _refuse(self, request: Request, error: HTTPException) -> Response:
        is_plain = error.status_code == 404 and error.detail == "Not Found"
        message = "There is no such page." if is_plain else error.detail
        code = CODES.get(error.status_code, OTHER_CODE)
        visitor = None
        if not rendering.is_for_program(request):  # who is signed in finds the way back on the page
            with suppress(sqlite3.Error):
                visitor = await self.visitors.find(request)
        return rendering.refuse(
            request, error.status_code, code, message, error.headers, visitor=visitor
        )

    async def _refuse_caller(self, request: Request, error: ControlError) -> Response:
        """Return an error page (or JSON) for an error of ``control.db`` that no form displays itself."""
        is_missing = isinstance(error, NotFoundError)
        detail = "Not Found" if is_missing else as_sentence(str(error))
        return await self._refuse(request, HTTPException(error.status, detail))


class Dashboard(CallPages):
    """All pages: those of recorded calls, and those for signing in, settings, help, labels and the status
    line."""

    def __init__(
        self,
        settings: Settings,
        pool: ControlPool,
        mailer: Mailer,
        bad_keys: AttemptLimit,
        *,
        is_demo: bool = False,
    ) -> None:
        visitors = Visitors(pool, settings.base_url, bad_keys, settings.data_dir)
        super().__init__(settings, visitors, has_people=True)
        self._budgets = BudgetDeliveries(
            settings, pool, mailer, WebhookClient(settings.webhook_rule)
        )
        self._statuses = StatusMemory(settings, pool, self._site.connections, self._live.feeds)
        self._routes[:0] = [
            *AnnotationPages(settings, pool, visitors).routes(),
            *StatusLinePages(settings, self._statuses).routes(),
            *HelpPages(visitors).routes(),
            *SettingsPages(self._site, pool, mailer).routes(),
            *SignInPages(settings, pool, visitors, mailer, is_demo=is_demo).routes(),
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        with super().running(), self._budgets.running(), self._statuses.running():
            yield


async def _serve_icon(_request: Request) -> Response:
    """Serve ``/favicon.ico``, which browsers request also for responses that are not HTML."""
    return FileResponse(HERE / "static" / "favicon.ico", media_type="image/x-icon")


async def _require_sign_in(request: Request, _error: NotSignedInError) -> Response:
    return rendering.require_sign_in(request)


async def _refuse_bad_keys(request: Request, error: TooManyBadKeysError) -> Response:
    headers = {"retry-after": str(error.wait_s)}
    return rendering.refuse(request, 429, CODES[429], str(error), headers)


async def _report_unavailable(request: Request, error: sqlite3.Error) -> Response:
    logger.error("A page could not be made: %s", error)
    headers = {"retry-after": "1"}
    return rendering.refuse(request, 503, CODES[503], "Try again in a moment.", headers)


async def _report_short_memory(request: Request, error: Exception) -> Response:
    if not address_space.is_used_up(error):
        raise error
    logger.error("A page needed more memory than TAXIMETER_WEB_MEMORY allows.")
    message = "The service is short of memory. Ask for less, or try again in a moment."
    return rendering.refuse(request, 503, CODES[503], message, {"retry-after": "3"})


async def _report_failure(request: Request, _error: Exception) -> Response:
    """Return a response with status 500. Starlette raises the error again after sending it, which logs it."""
    return rendering.refuse(request, 500, CODES[500], "Internal error.")
