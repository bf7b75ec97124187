"""Responses of the API to requests that it refuses: ``{"error": {"code", "message", "field"?}}``."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from manage.api.operation import Operation
from runtime import address_space
from runtime.errors import CODES, OTHER_CODE, ControlError, as_sentence
from store.json_models import Error, ErrorDetail

logger = logging.getLogger(__name__)

JSON = "application/json"
NOT_STORED = {"cache-control": "no-store"}


class RefusedError(Exception):
    """A request is refused with ``status``."""

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


def explain(operation: Operation[Any, Any], error: ControlError) -> RefusedError:
    """Return the refusal for an error.

    For a thing that does not exist it has the operation's own text, if there is one: the error's text
    names commands."""
    status = HTTPStatus(error.status)
    message = as_sentence(str(error))
    if status is HTTPStatus.NOT_FOUND:
        message = operation.errors.get(status, message)
    return RefusedError(status, message, code=error.code, field=error.field)


def refuse(refused: RefusedError) -> Response:
    body = Error(error=refused.detail).model_dump_json(exclude_none=True).encode()
    return respond(refused.status, body, refused.headers)


async def refuse_http(_request: Request, error: Exception) -> Response:
    """Return the error response to a request with an unknown path or method, which Starlette refuses."""
    if not isinstance(error, HTTPException):
        raise TypeError from error
    status = HTTPStatus(error.status_code)
    return refuse(
        RefusedError(
            status,
            f"{status.phrase}; /api/openapi.json lists all operations.",
            code=CODES.get(status, OTHER_CODE),
            headers=error.headers,
        )
    )


async def refuse_for_memory(_request: Request, error: Exception) -> Response:
    """Return the error response for a MemoryError. Raises any other error again."""
    if not address_space.is_used_up(error):
        raise error
    logger.error("A request to the API needed more memory than TAXIMETER_WEB_MEMORY allows.")
    return refuse(
        RefusedError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The service is short of memory; ask for less, with a smaller limit or for fewer days, or try"
            " again.",
            headers={"retry-after": "3"},
        )
    )


async def refuse_crash(_request: Request, _error: Exception) -> Response:
    """Return the response to an internal error. Starlette raises the error again afterwards, and it
    is logged."""
    return refuse(
        RefusedError(
            HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error. See the server log for details."
        )
    )


def respond(status: HTTPStatus, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response that no cache stores."""
    return Response(body, status.value, NOT_STORED | dict(headers or {}), media_type=JSON)
