"""The callers of a node that responds for the node with the pages, known by checked statements.

Nobody signs in here. Every request must have a statement; other credentials in it are ignored."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard import rendering
from dashboard.addresses import requested
from dashboard.visitors import ControlPool, NotSignedInError, StatedCallers, Visitors
from extensions.cluster.page_nodes import REFUSED, read_node
from extensions.cluster.statements import HEADER, Statement, StatementError, load_checking_key
from runtime import response_headers
from runtime.attempts import AttemptLimit
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.key_authentication import STATED_CALLER
from store.control.people import Caller
from store.control.sessions import Visitor

COPY = "read from a copy"
_OF_OTHERS = (b"authorization", b"cookie", HEADER.encode())


class StatedVisitors(Visitors):
    """Authenticates requests by their statements."""

    async def find(self, request: Request) -> Visitor | None:
        """Return the visitor named by the statement, None if it names a service API key's owner."""
        caller = request.scope[STATED_CALLER]
        return caller if isinstance(caller, Visitor) else None

    async def require_with[T](
        self, request: Request, read: Callable[[ControlDatabase, Visitor], T]
    ) -> tuple[Visitor, T]:
        """Return the visitor named by the statement, and the result of ``read`` from ``control.db``.

        ``control.db`` is incomplete on this node. Raises NotSignedInError, sqlite3.Error and what
        ``read`` raises."""
        visitor = await self.find(request)
        if visitor is None:
            raise NotSignedInError
        return visitor, await self._pool.run(lambda control: read(control, visitor))

    async def require_caller(self, request: Request) -> Caller:
        """Return the caller named by the statement.

        During a response, the node with the pages checks whether the caller may still read."""
        return cast(Caller, request.scope[STATED_CALLER])


class CheckStatements:
    """Middleware that refuses requests without a valid statement.

    ``/livez`` needs none, nor does ``/metrics`` for the operator, who has other credentials."""

    def __init__(
        self,
        app: ASGIApp,
        pool: ControlPool,
        data_dir: Path,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """Check with ``clock_s``, which returns seconds since 1970."""
        self._app = app
        self._pool = pool
        self._data_dir = data_dir
        self._clock_s = clock_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_open(scope):
            try:
                statement = await self._check(Request(scope))
            except StatementError as error:
                refusal = rendering.problem_json(
                    403,
                    REFUSED,
                    f"{error}. Pages are at the node with people.",
                    {response_headers.ERROR: REFUSED},
                )
                await refusal(scope, receive, send)
                return
            scope = _with_caller(scope, statement)
            if statement.is_copy:
                send = _saying_so(send)
        await self._app(scope, receive, send)

    async def _check(self, request: Request) -> Statement:
        """Return the valid statement of a request. Raises StatementError, sqlite3.Error."""
        values = request.headers.getlist(HEADER)
        if len(values) != 1:
            raise StatementError("there is no statement of who asks")
        key = await self._pool.run(load_checking_key)
        statement = Statement.check(values[0], key, now_s=self._clock_s())
        made_for = statement.node, statement.method, statement.target
        if made_for != (read_node(self._data_dir), request.method, requested(request.scope)):
            raise StatementError("the statement of who asks is for another request")
        return statement


def _is_open(scope: Scope) -> bool:
    """Return whether a request needs no statement."""
    has_none = all(name != HEADER.encode() for name, _ in scope["headers"])
    return scope["path"] == "/livez" or (scope["path"] == "/metrics" and has_none)


def _saying_so(send: Send) -> Send:
    """Return a ``send`` that adds a header which says that the response was read from a copy."""

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message.get("headers", ()),
                (response_headers.COPY.encode(), b"yes"),
            ]
        await send(message)

    return send_with_header


def _with_caller(scope: Scope, statement: Statement) -> Scope:
    """Return a scope with the caller of a statement, and without headers for the node with the pages."""
    caller = statement.caller
    headers = [each for each in scope["headers"] if each[0] not in _OF_OTHERS]
    if not isinstance(caller, Visitor):
        headers.append(
            (b"authorization", b"by a statement")
        )  # pages see by it that it is a program's
    elif statement.is_copy:
        caller = replace(caller, organization_name=f"{caller.organization_name}, {COPY}")
    return {**scope, "headers": headers, STATED_CALLER: caller}


def make(settings: Settings, pool: ControlPool, bad_keys: AttemptLimit) -> StatedCallers:
    """Return the authentication of callers that the node with the pages states."""
    return StatedCallers(
        visitors=StatedVisitors(pool, settings.base_url, bad_keys, settings.data_dir),
        middleware=Middleware(CheckStatements, pool=pool, data_dir=settings.data_dir),
    )
