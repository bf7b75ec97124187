"""The front door of a cluster: it forwards requests for pages of calls that other nodes keep.

People sign in on this node, and all changes are made here. A request for a page of an organisation
whose calls are on another node goes to that node, with a statement of the caller; if it does not
respond, to the node with the other copy."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.addresses import raw_path, requested
from dashboard.call_route import CallRoute
from dashboard.forms import read_body
from dashboard.visitors import ControlPool, NotSignedInError, TooManyBadKeysError, Visitors
from extensions.cluster.page_nodes import FIRST_BYTE_S, PageNode, PageNodes, PageNodesFile
from extensions.cluster.pages.forwarding import (
    ForwardedRequest,
    Forwarder,
    NodeAwayError,
    NodeSilentError,
    until_gone,
)
from extensions.cluster.statements import Statement, load_signing_key
from manage.api.routes import OperationRoute
from manage.metrics.routes import METRICS
from store.control.people import Caller
from store.control.sessions import Visitor

SILENT_S = 30.0  # for which a node that was silent is asked last
MAX_BODY_BYTES = 1 << 20  # the front door lets through no more
_AWAY = (
    "The node that keeps the calls of your organisation does not respond. They are recorded all the same;"
    " try again in a moment."
)

logger = logging.getLogger(__name__)


class FrontDoor:
    """Middleware that forwards requests for pages to the nodes that keep the calls."""

    def __init__(
        self,
        app: ASGIApp,
        routes: Sequence[BaseRoute],
        nodes: PageNodesFile,
        visitors: Visitors,
        pool: ControlPool,
        forwarder: Forwarder,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """Forward requests for those of ``routes`` that read calls.

        ``clock_s`` returns seconds since 1970, for statements."""
        self._app = app
        self._routes = routes
        self._nodes = nodes
        self._visitors = visitors
        self._pool = pool
        self._forwarder = forwarder
        self._clock_s = clock_s
        self._key: Ed25519PrivateKey | None = None
        self._silent_until_s: dict[str, float] = {}  # by node

    async def __aenter__(self) -> Self:
        """Load or make the key of this node, so that others know it before the first request.

        Raises sqlite3.Error."""
        self._key = await self._pool.run(load_signing_key)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections to other nodes."""
        await self._forwarder.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        nodes = self._nodes.read() if scope["type"] == "http" else None
        if nodes is None or not reads_calls(self._routes, scope, is_dry_run=True):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        caller = await self._visitors.find_caller(request)
        if caller is None or not nodes.is_elsewhere(caller.organization_id):
            await self._app(scope, receive, send)
            return
        body = await read_body(
            request,
            MAX_BODY_BYTES,
            too_large="This request is too large.",
            cut="This request did not come to its end.",
        )
        if not reads_calls(self._routes, scope, is_dry_run=_is_dry_run(body)):
            await self._app(scope, _once_more(body, receive), send)
            return
        await until_gone(receive, self._forward(request, body, caller, nodes, send))

    async def _forward(
        self, request: Request, body: bytes, caller: Caller, nodes: PageNodes, send: Send
    ) -> None:
        """Forward a request to the first node that responds. Raises HTTPException if none does."""

        async def check() -> bool:
            try:
                await self._visitors.check_caller(request, caller)
            except (NotSignedInError, TooManyBadKeysError):
                return False
            return True

        forwarded = ForwardedRequest(request=request, body=body, check=check)
        holders = self._find_holders(request, caller, nodes)
        for number, node in enumerate(holders, start=1):
            statement = self._sign(request, caller, nodes, node)
            patience_s = FIRST_BYTE_S if number < len(holders) else None
            try:
                await self._forwarder.forward(node.address, forwarded, statement, send, patience_s)
            except NodeAwayError as error:
                logger.warning("node %s at %s: %s", node.id, node.address, error)
                if isinstance(error, NodeSilentError):
                    self._silent_until_s[node.id] = self._clock_s() + SILENT_S
            else:
                return
        raise HTTPException(503, _AWAY, {"retry-after": "3"})

    def _find_holders(
        self, request: Request, caller: Caller, nodes: PageNodes
    ) -> Sequence[PageNode]:
        """Return the nodes to ask, in order. A node that was silent a moment ago comes last."""
        found = nodes.find(caller.organization_id)
        if raw_path(request.scope) == METRICS:
            # Who watches counters takes smaller ones for a restart, and counts all of them again.
            return [each for each in found if not nodes.is_copy(each)]
        now_s = self._clock_s()
        return sorted(found, key=lambda each: self._silent_until_s.get(each.id, 0.0) > now_s)

    def _sign(self, request: Request, caller: Caller, nodes: PageNodes, node: PageNode) -> str:
        if self._key is None:
            raise RuntimeError("used before it was started")
        return Statement(
            caller=_without_key(caller),
            node=node.id,
            method=request.method,
            target=requested(request.scope),
            at_s=self._clock_s(),
            is_copy=nodes.is_copy(node),
        ).sign(self._key)


def _is_dry_run(body: bytes) -> bool:
    """Return whether a JSON body asks for a dry run."""
    try:
        found = orjson.loads(body)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("dry_run") is True


def _once_more(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that first returns ``body``, which was read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def _without_key(caller: Caller) -> Caller:
    """Return the caller without the API key that was used."""
    if isinstance(caller, Visitor):
        return caller
    return Caller(
        user_id=caller.user_id,
        organization_id=caller.organization_id,
        role=caller.role,
        time_zone=caller.time_zone,
    )


def reads_calls(routes: Sequence[BaseRoute], scope: Scope, *, is_dry_run: bool) -> bool:
    """Return whether a request is for a route that reads calls.

    ``is_dry_run``: the body asks for a dry run."""
    for route in routes:
        match, child = route.matches(scope)
        if match is not Match.FULL:
            continue
        if isinstance(route, Mount):
            return reads_calls(route.routes, {**scope, **child}, is_dry_run=is_dry_run)
        if isinstance(route, CallRoute):
            return route.reads_calls(scope["method"], raw_path(scope))
        return isinstance(route, OperationRoute) and route.reads_calls(
            scope["method"], is_dry_run=is_dry_run
        )
    return False


def make(
    app: ASGIApp,
    routes: Sequence[BaseRoute],
    data_dir: Path,
    visitors: Visitors,
    pool: ControlPool,
) -> FrontDoor:
    """Return a front door in front of an application with these routes."""
    return FrontDoor(app, routes, PageNodesFile(data_dir), visitors, pool, Forwarder())
