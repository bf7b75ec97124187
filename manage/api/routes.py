"""The management API over HTTP: ``/api/…``.

Here requests become calls of ``Management``, and what comes back becomes JSON; what may be asked is in
``operations``. A request is read here, on the event loop, and carried out whole in a worker: who it is,
whether it can be understood, and then what it asks for. In that order too, so that nobody learns
anything of what needs a key without one.
"""

import re
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from manage.api import openapi
from manage.api.models import ApiModel, Error, ErrorDetail, Nothing
from manage.api.operations import OPERATIONS, Asked, Operation
from manage.supervision.workers import Workers
from runtime.attempts import AttemptLimit, neighbourhood
from runtime.errors import (
    ConflictError,
    ControlError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    SlugTakenError,
)
from runtime.settings import Settings
from store.control import key_authentication
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.people import Caller

CODES = {
    HTTPStatus.BAD_REQUEST: "invalid_input",
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.CONFLICT: "conflict",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "unsupported_media_type",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limited",
    HTTPStatus.INTERNAL_SERVER_ERROR: "internal_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "unavailable",
}
_STATUSES: Mapping[type[ControlError], HTTPStatus] = {
    InvalidInputError: HTTPStatus.BAD_REQUEST,
    ConflictError: HTTPStatus.CONFLICT,
    ForbiddenError: HTTPStatus.FORBIDDEN,
    NotFoundError: HTTPStatus.NOT_FOUND,
}


# Starlette's own leaves out what holds a line end, which would then be answered as a page is.
_ANYTHING_BELOW = re.compile(r"/api/(?P<path>.*)", re.DOTALL)


class RefusedError(Exception):
    """The request is answered with an error."""

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = ErrorDetail(code=code or CODES[status], message=message, field=field)
        self.headers = headers


class UnknownKeyError(Exception):
    """The request came with a key that is not good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came. ``body`` is None when it was too large to read."""

    bearer: str | None
    id: str
    query: Sequence[tuple[str, str]]
    content_type: str
    body: bytes | None


class Api:
    """The clock is monotonic seconds."""

    def __init__(
        self,
        settings: Settings,
        workers: Workers,
        bad_keys: AttemptLimit,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._clock_s = clock_s
        self._bad_keys = bad_keys

    @cached_property
    def _document(self) -> bytes:
        """Made when somebody asks for it: that takes longer than all else the web process starts with."""
        return orjson.dumps(openapi.make_document(OPERATIONS, self._settings.base_url))

    def route(self) -> Mount:
        paths: dict[str, dict[str, Operation[Any, Any]]] = {}
        for operation in OPERATIONS:
            paths.setdefault(operation.path, {})[operation.method] = operation
        app = Starlette(
            routes=[
                Route("/openapi.json", self.show_document),
                *(
                    Route(path, partial(self.serve, methods), methods=list(methods))
                    for path, methods in paths.items()
                ),
            ],
            exception_handlers={HTTPException: _refuse_http, Exception: _refuse_crash},
        )
        # A slash too many is a mistake to be told of: not every client repeats a DELETE elsewhere.
        app.router.redirect_slashes = False
        mount = Mount("/api", app=app)
        mount.path_regex = _ANYTHING_BELOW
        return mount

    async def show_document(self, _request: Request) -> Response:
        return _respond(HTTPStatus.OK, self._document)

    async def serve(self, methods: Mapping[str, Operation[Any, Any]], request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        try:
            received = await self._receive(operation, request)
            answer = await self._workers.run(partial(self._carry_out, operation, received))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except UnknownKeyError:
            return _refuse(self._refuse_key(request))
        except RefusedError as refused:
            return _refuse(refused)
        return _respond(operation.status, answer.model_dump_json(by_alias=True).encode())

    async def _receive(self, operation: Operation[Any, Any], request: Request) -> Received:
        headers = request.headers
        credentials = headers.getlist("authorization")
        return Received(
            bearer=key_authentication.parse_bearer(credentials[0])
            if len(credentials) == 1
            else None,
            id=request.path_params.get("id", ""),
            query=request.query_params.multi_items(),
            content_type=headers.get("content-type", ""),
            body=await _read_body(request) if operation.takes_body else b"",
        )

    def _refuse_key(self, request: Request) -> RefusedError:
        """A good key passes whatever others at the same address do: behind one office's address a
        forgotten script must not lock everybody out."""
        client = request.client.host if request.client else ""
        wait_s = self._bad_keys.count(neighbourhood(client), self._clock_s())
        if wait_s:
            return RefusedError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"Too many keys that are not good came from your address; wait {wait_s} s.",
                headers={"retry-after": str(wait_s)},
            )
        return RefusedError(
            HTTPStatus.UNAUTHORIZED,
            "This service API key is not known; it may have been deleted.",
            headers={"www-authenticate": "Bearer"},
        )

    # -- in a worker ------------------------------------------------------------------------------

    def _carry_out(
        self, operation: Operation[Any, Any], received: Received, control: ControlDatabase
    ) -> ApiModel:
        """Raises RefusedError, UnknownKeyError."""
        management = Management.make(control, self._settings)
        try:
            asked: Asked[ApiModel, ApiModel] = Asked(
                management=management,
                caller=_authenticate(received, management),
                endpoint_url=self._settings.endpoint_url,
                id=received.id,
                query=_check_query(operation.query, received.query),
                body=_check_body(operation, received),
            )
            answer: ApiModel = operation.run(asked)
        except ControlError as error:
            raise _explain(operation, error) from error
        except sqlite3.Error as error:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "The database is busy or cannot be used just now; try again.",
                headers={"retry-after": "1"},
            ) from error
        return answer


def _authenticate(received: Received, management: Management) -> Caller:
    """Raises RefusedError, UnknownKeyError."""
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
    """None when it is too large. What is left of it then is read and dropped by the server."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > openapi.MAX_BODY_BYTES:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > openapi.MAX_BODY_BYTES:
            return None
    return bytes(body)


def _check_query(model: type[ApiModel], query: Sequence[tuple[str, str]]) -> ApiModel:
    given = dict(query)
    if len(given) < len(query):
        name = next(name for name, _ in query if [n for n, _ in query].count(name) > 1)
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"{name} was given twice.", field=name)
    return _check(model, given)


def _check_body(operation: Operation[Any, Any], received: Received) -> ApiModel:
    if not operation.takes_body:
        return Nothing()
    media_type = received.content_type.partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send JSON: Content-Type: application/json"
        )
    if received.body is None:
        raise RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"A body has at most {openapi.MAX_BODY_BYTES} bytes.",
        )
    try:
        document = orjson.loads(received.body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "The body is not valid JSON.") from error
    return _check(operation.body, document)


def _check(model: type[ApiModel], given: object) -> ApiModel:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = str(fault["loc"][0]) if fault["loc"] else None
        raise RefusedError(HTTPStatus.BAD_REQUEST, _describe_fault(fault), field=name) from error


def _describe_fault(fault: Mapping[str, Any]) -> str:
    match fault["type"]:
        case "missing":
            return "This field is required."
        case "extra_forbidden":
            return "There is no such field."
        case "model_type" | "model_attributes_type":
            return "Send a JSON object."
        case _:
            return _sentence(str(fault["msg"]).removeprefix("Value error, "))


def _explain(operation: Operation[Any, Any], error: ControlError) -> RefusedError:
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    message = _sentence(str(error))
    if status in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
        message = operation.refusals[status]
    code = "slug_taken" if isinstance(error, SlugTakenError) else None
    return RefusedError(status, message, code=code, field=error.field)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text[-1:] not in ".!?" else text


def _refuse(refused: RefusedError) -> Response:
    body = Error(error=refused.detail).model_dump_json(exclude_none=True).encode()
    return _respond(refused.status, body, refused.headers)


async def _refuse_http(_request: Request, error: Exception) -> Response:
    """What Starlette refuses: an unknown path, a method that a path has not."""
    if not isinstance(error, HTTPException):
        raise TypeError from error
    status = HTTPStatus(error.status_code)
    return _refuse(
        RefusedError(
            status,
            f"{status.phrase}; /api/openapi.json lists what there is.",
            code=CODES.get(status, "refused"),
            headers=error.headers,
        )
    )


async def _refuse_crash(_request: Request, _error: Exception) -> Response:
    """Starlette raises the error again once this is sent, and it is logged."""
    return _refuse(RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong here."))


def _respond(status: HTTPStatus, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        body,
        status.value,
        {"cache-control": "no-store", **(headers or {})},
        media_type="application/json",
    )
