"""The management API over HTTP: ``/api/…``.

Requests become calls of the operations in the table ``operations``, and their results become JSON
responses. A request is read on the event loop and carried out in a worker thread, in this order:
authentication, validation, operation. So a client without a key learns nothing from errors of
validation. Operations of one organisation, and the parts of its long responses, are carried out one
after the other, so that one organisation cannot occupy all threads; slow operations always leave at
least one thread to others."""

import asyncio
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route

from manage.api import openapi
from manage.api.operation import Context, Operation
from manage.api.operations import OPERATIONS
from manage.api.refusals import (
    JSON,
    NOT_STORED,
    RefusedError,
    explain,
    refuse,
    refuse_crash,
    refuse_for_memory,
    refuse_http,
    respond,
)
from manage.api.streaming import Encoded, PartsResponse, Read, send_parts
from manage.api.validation import validate
from manage.supervision.workers import COUNT, Workers
from runtime.attempts import AttemptLimit, client_network
from runtime.errors import ControlError, InvalidInputError
from runtime.organization_locks import BusyError, OrganizationLocks
from runtime.settings import Settings
from store.control import key_authentication
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.people import Caller
from store.json_models import JsonPage, RequestModel, ResponseModel

# Starlette's own pattern does not match a line end; such a path would get a page's error.
_ANYTHING_BELOW = re.compile(r"/api/(?P<path>.*)", re.DOTALL)


# Of an organisation. The front door lets no more through from one address.
MAX_WAITING = 64
_BUSY = RefusedError(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "Earlier requests of your organisation are still running; try again.",
    headers={"retry-after": "3"},
)


class UnknownKeyError(Exception):
    """The request has a service API key that is unknown or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """A request before validation. ``body`` is None if it was too large to read.

    ``caller`` is the authenticated caller if another machine of the service forwarded the request,
    otherwise None."""

    bearer: str | None
    caller: Caller | None
    names: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    content_type: str
    body: bytes | None


class OperationRoute(Route):
    """The route of one path, with the operation for each method."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], operations: Mapping[str, Operation[Any, Any]]
    ) -> None:
        super().__init__(path, endpoint, methods=list(operations))
        self._operations = operations

    def reads_calls(self, method: str, *, is_dry_run: bool) -> bool:
        """Return whether a request reads recorded calls. ``is_dry_run``: its body asks for a dry run."""
        found = self._operations.get("GET" if method == "HEAD" else method)
        return found is not None and (found.reads_calls or (is_dry_run and found.has_dry_run))


class Api:
    """The Starlette application of the management API.

    ``pages`` are the JSON pages that its OpenAPI document also describes; ``clock_s`` returns
    monotonic seconds."""

    def __init__(
        self,
        settings: Settings,
        workers: Workers,
        bad_keys: AttemptLimit,
        pages: Sequence[JsonPage] = (),
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._pages = pages
        self._clock_s = clock_s
        self._bad_keys = bad_keys
        self._locks = OrganizationLocks(MAX_WAITING)
        self._slow = asyncio.Semaphore(COUNT - 1)

    @cached_property
    def _document(self) -> bytes:
        """Return the OpenAPI document, made at the first request for it, since making it slows the start."""
        return orjson.dumps(openapi.make_document(OPERATIONS, self._pages, self._settings.base_url))

    def route(self) -> Mount:
        paths: dict[str, dict[str, Operation[Any, Any]]] = {}
        for operation in OPERATIONS:
            paths.setdefault(operation.path, {})[operation.method] = operation
        app = Starlette(
            routes=[
                Route("/openapi.json", self.serve_document),
                *(
                    OperationRoute(_open_id(path), partial(self.serve, methods), methods)
                    for path, methods in paths.items()
                ),
            ],
            exception_handlers={
                HTTPException: refuse_http,
                MemoryError: refuse_for_memory,
                RuntimeError: refuse_for_memory,
                Exception: refuse_crash,
            },
        )
        # A trailing slash is an error, not a redirect: not every client repeats a DELETE after one.
        app.router.redirect_slashes = False
        mount = Mount("/api", app=app)
        mount.path_regex = _ANYTHING_BELOW
        return mount

    async def serve_document(self, _request: Request) -> Response:
        return respond(HTTPStatus.OK, self._document)

    async def serve(self, methods: Mapping[str, Operation[Any, Any]], request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        try:
            received = await self._receive(operation, request)
            caller = await self._workers.run(partial(self._authenticate, received))
            slow = self._slow if operation.is_slow else nullcontext()
            async with self._locks.acquire(caller.organization_id), slow:
                encoded = await self._workers.run(partial(self._carry_out, operation, received))
        except ClientDisconnect:
            return Response(status_code=400)  # the client has gone
        except UnknownKeyError:
            return refuse(self._refuse_key(request))
        except BusyError:
            return refuse(_BUSY)
        except RefusedError as refused:
            return refuse(refused)
        if encoded.rest is None:
            return respond(operation.status, encoded.start)
        if request.method == "HEAD":
            encoded.rest.close()
            return StreamingResponse((), operation.status, NOT_STORED, media_type=JSON)
        parts = send_parts(encoded, partial(self._make_part, caller.organization_id))
        return PartsResponse(parts, operation.status, NOT_STORED, media_type=JSON)

    async def _make_part(self, organization_id: str, read: Read) -> bytes:
        """Return the next part of a response, read in a worker thread. Raises BusyError, sqlite3.Error."""
        async with self._locks.acquire(organization_id):
            return await self._workers.run(lambda _control: read())

    async def _receive(self, operation: Operation[Any, Any], request: Request) -> ReceivedRequest:
        headers = request.headers
        credentials = headers.getlist("authorization")
        return ReceivedRequest(
            bearer=key_authentication.parse_bearer(credentials[0])
            if len(credentials) == 1
            else None,
            caller=request.scope.get(key_authentication.STATED_CALLER),
            names=request.path_params,
            query=request.query_params.multi_items(),
            content_type=headers.get("content-type", ""),
            body=await _read_body(request) if operation.takes_body else b"",
        )

    def _refuse_key(self, request: Request) -> RefusedError:
        """Return the refusal of an unknown key, and count it against the client's network.

        A valid key is accepted even where too many unknown ones came from: a forgotten script must
        not lock out everybody behind the address of an office."""
        client = request.client.host if request.client else ""
        wait_s = self._bad_keys.count(client_network(client), self._clock_s())
        if wait_s:
            return RefusedError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"Too many unknown keys were sent from your address; wait {wait_s} s.",
                headers={"retry-after": str(wait_s)},
            )
        return RefusedError(
            HTTPStatus.UNAUTHORIZED,
            "This service API key is unknown. It may have been deleted.",
            headers={"www-authenticate": "Bearer"},
        )

    # -- in a worker ------------------------------------------------------------------------------

    def _authenticate(self, received: ReceivedRequest, control: ControlDatabase) -> Caller:
        """Return the caller that makes the request. Raises RefusedError, UnknownKeyError."""
        with _refusing_without_database():
            return _authenticate(received, Management.make(control, self._settings))

    def _carry_out(
        self, operation: Operation[Any, Any], received: ReceivedRequest, control: ControlDatabase
    ) -> Encoded:
        """Carry out a request and return its response. Raises RefusedError, UnknownKeyError."""
        # Once more: the key may have been deleted while the request waited for its turn.
        caller = self._authenticate(received, control)
        management = Management.make(control, self._settings)
        try:
            context = Context(
                management=management,
                caller=caller,
                endpoint_url=self._settings.endpoint_url,
                id=received.names.get("id", ""),
                request=_validate(operation, received),
                names=received.names,
            )
            with _refusing_without_database():
                return _encode(operation, context)
        except ControlError as error:
            raise explain(operation, error) from error


def _open_id(path: str) -> str:
    """Return the route pattern of a path, in which the id of a session may hold slashes."""
    for place in ("/{kind}/{id}", "/sessions/{id}"):
        path = path.replace(place, f"{place.removesuffix('}')}:path}}")
    return path


def _encode(operation: Operation[Any, Any], context: Context[Any]) -> Encoded:
    """Run an operation and return the JSON of its response."""
    if operation.encode is not None:
        return Encoded.begin(operation.encode(context))
    response: ResponseModel = operation.run(context)
    return Encoded(response.model_dump_json(by_alias=True).encode())


@contextmanager
def _refusing_without_database() -> Iterator[None]:
    """Turn an sqlite3.Error in the block into a RefusedError with status 503."""
    try:
        yield
    except sqlite3.Error as error:
        raise RefusedError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The database is busy or cannot be used at the moment; try again.",
            headers={"retry-after": "1"},
        ) from error


def _authenticate(received: ReceivedRequest, management: Management) -> Caller:
    """Return the caller: stated by another machine, or the owner of the key.

    Raises RefusedError for a request without a key, UnknownKeyError."""
    if received.caller is not None:
        return received.caller
    if received.bearer is None:
        raise RefusedError(
            HTTPStatus.UNAUTHORIZED,
            "Send a service API key: Authorization: Bearer sk_…",
            headers={"www-authenticate": "Bearer"},
        )
    caller = management.authenticate(received.bearer)
    if caller is None:
        raise UnknownKeyError
    return caller


async def _read_body(request: Request) -> bytes | None:
    """Return the body, or None if it is too large; the server then discards the rest of it."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > openapi.MAX_BODY_BYTES:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > openapi.MAX_BODY_BYTES:
            return None
    return bytes(body)


def _validate(operation: Operation[Any, Any], received: ReceivedRequest) -> RequestModel:
    """Return the validated query, or body for a method that has one. Raises InvalidInputError,
    RefusedError."""
    query = _validate_query(operation, received.query)
    return _validate_body(operation, received) if operation.takes_body else query


def _validate_query(
    operation: Operation[Any, Any], query: Sequence[tuple[str, str]]
) -> RequestModel:
    given = dict(query)
    if len(given) < len(query):
        name = next(name for name, _ in query if [n for n, _ in query].count(name) > 1)
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"{name} was given twice.", field=name)
    return validate(operation.query, given)


def _validate_body(operation: Operation[Any, Any], received: ReceivedRequest) -> RequestModel:
    media_type = received.content_type.partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send JSON: Content-Type: application/json"
        )
    if received.body is None:
        raise RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The body is larger than {openapi.MAX_BODY_BYTES} bytes.",
        )
    try:
        document = orjson.loads(received.body)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError("the body is not valid JSON") from error
    request: RequestModel = validate(operation.request, document)
    return request
