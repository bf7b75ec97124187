"""The address ``/metrics``: authentication, and the response.

A service API key gives access to the figures of its organisation. A request from this machine, or with
the operator's token, gets those of all organisations and of the processes."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from hmac import compare_digest
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from manage.metrics.exposition import render
from manage.metrics.figures import FigureReader
from manage.metrics.processes import find_processes
from manage.supervision.workers import Workers
from runtime import clock
from runtime.attempts import AttemptLimit, client_network
from runtime.local_requests import is_local_request
from runtime.settings import Settings
from store.control import key_authentication
from store.control.database import ControlDatabase
from store.control.people import Caller
from store.control.sessions import Visitor

METRICS = "/metrics"
_VERSION = version("taximeter")
_NO_KEY = (
    "Send a service API key: Authorization: Bearer sk_…, or the text of TAXIMETER_METRICS_TOKEN for the"
    " figures of all organisations.\n"
)


class Metrics:
    """The route of ``/metrics``. ``clock_s`` returns monotonic seconds.

    Without ``supervisor_pid`` there are no figures of processes. Without ``board_fd``, the board of
    the proxy's workers, there are none of requests that these refused. ``takes_keys`` is False on a
    machine without sign-in: another machine checks keys for it and states the caller."""

    def __init__(
        self,
        settings: Settings,
        workers: Workers,
        bad_keys: AttemptLimit,
        supervisor_pid: int | None = None,
        board_fd: int | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        *,
        takes_keys: bool = True,
    ) -> None:
        self._settings = settings
        self._takes_keys = takes_keys
        self._workers = workers
        self._bad_keys = bad_keys
        self._supervisor_pid = supervisor_pid
        self._clock_s = clock_s
        self._reader = FigureReader(
            settings.data_dir,
            settings.proxy_spool_path,
            settings.spool_path,
            board_fd,
            node=settings.node,
        )
        # One at a time, so that scrapes take one of the threads that the API needs too.
        self._turn = asyncio.Lock()

    async def serve(self, request: Request) -> Response:
        """Return the response with the metrics that the caller may see."""
        credentials = request.headers.getlist("authorization")
        client = request.client.host if request.client else ""
        stated: Caller | None = request.scope.get(key_authentication.STATED_CALLER)
        if isinstance(stated, Visitor):  # a browser has no key here either
            return _refuse(_NO_KEY)
        if stated is not None:
            bearer = None
        elif not credentials:
            if not is_local_request(self._settings, client, request.headers):
                return _refuse(_NO_KEY)
            bearer = None
        else:
            bearer = (
                key_authentication.parse_bearer(credentials[0]) if len(credentials) == 1 else None
            )
            if bearer is None:
                return _refuse("Send one key: Authorization: Bearer sk_…\n")
        accept = request.headers.get("accept", "")
        try:
            async with self._turn:
                rendered = await self._workers.run(
                    lambda control: self._render(control, bearer, stated, accept)
                )
        except sqlite3.Error:
            return PlainTextResponse(
                "A database is busy or cannot be used at the moment; try again.\n",
                503,
                {"retry-after": "1"},
            )
        if rendered is None:
            return self._refuse_key(client)
        text, content_type = rendered
        return Response(
            text, headers={"content-type": content_type, "cache-control": "private, no-store"}
        )

    def _refuse_key(self, client: str) -> Response:
        """Return the refusal of an unknown key, and count it against the client's network."""
        wait_s = self._bad_keys.count(client_network(client), self._clock_s())
        if wait_s:
            return PlainTextResponse(
                f"Too many unknown keys were sent from your address; wait {wait_s} s.\n",
                429,
                {"retry-after": str(wait_s)},
            )
        return _refuse("This service API key is unknown. It may have been deleted.\n")

    # -- in a worker ------------------------------------------------------------------------------

    def _render(
        self, control: ControlDatabase, bearer: str | None, caller: Caller | None, accept: str
    ) -> tuple[bytes, str] | None:
        """Return the metrics with their content type, or None if the key is unknown. Raises sqlite3.Error."""
        if caller is None and (bearer is None or self._is_token(bearer)):
            processes = [] if self._supervisor_pid is None else find_processes(self._supervisor_pid)
            return render(self._reader.read_all(), processes, _VERSION, accept)
        if caller is None and bearer is not None and self._takes_keys:
            caller = key_authentication.identify(control, bearer, clock.now())
        if caller is None:
            return None
        figures = self._reader.read_organization(caller.organization_id)
        return render(figures, [], _VERSION, accept)

    def _is_token(self, bearer: str) -> bool:
        token = self._settings.metrics_token
        return token is not None and compare_digest(token.encode(), bearer.encode())


def _refuse(text: str) -> Response:
    return PlainTextResponse(text, 401, {"www-authenticate": "Bearer"})
