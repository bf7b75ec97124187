"""The declaration of an operation, shared by routes, OpenAPI document and command line.

The routes run an operation for the owner of a key. The command line runs it on this machine for the
local user, or sends it to a remote service (``manage.cli.backend`` and ``manage.cli.remote``).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, get_args, get_type_hints

from store.control.management import Management
from store.control.people import Caller
from store.json_models import NoFields, RequestModel, ResponseModel

type Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_WITHOUT_BODY = ("GET", "DELETE")

# Errors that several operations can be refused with.
FOR_OWNERS = {HTTPStatus.FORBIDDEN: "Only an owner of the organisation may do this."}
NO_ENDPOINT = {HTTPStatus.NOT_FOUND: "There is no such proxy endpoint in your organisation."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context[Request: RequestModel]:
    """A validated request. ``id`` is the id in the path, empty if the path has none.

    ``names`` has all variable parts of the path by name, the id among them."""

    management: Management
    caller: Caller
    endpoint_url: Callable[[str], str]
    id: str
    request: Request
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def trace_path(self) -> Path:
        """Return the path of the trace database of the caller's organisation."""
        return self.management.trace_path_of(self.caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation[Request: RequestModel, Response: ResponseModel]:
    """One operation of the management API.

    ``request`` is the model of the query for GET and DELETE, and of the body for other methods.
    ``errors``: the statuses with which only this operation can be refused, with texts for the OpenAPI
    document; for 404 the API also sends this text in place of the error's own, which is written for a
    terminal. ``reads_calls``: the operation reads recorded calls and changes nothing, so if another
    machine of the service has the caller's calls, it runs there (as the dry run of any operation
    does). ``encode`` yields the JSON of a response that may be too large to be made at once, and
    ``run`` makes the same response as a model. ``is_slow``: the operation may take seconds."""

    method: Method
    path: str
    name: str
    summary: str
    request: type[Request]
    response: type[Response]
    run: Callable[[Context[Request]], Response]
    status: HTTPStatus
    errors: Mapping[HTTPStatus, str] = field(default_factory=dict)
    encode: Callable[[Context[Request]], Iterator[bytes]] | None = None
    is_slow: bool = False
    reads_calls: bool = False

    @property
    def has_dry_run(self) -> bool:
        return "dry_run" in self.request.model_fields

    @property
    def query(self) -> type[RequestModel]:
        return self.request if self.method in _WITHOUT_BODY else NoFields

    @property
    def takes_body(self) -> bool:
        return self.method not in _WITHOUT_BODY and self.request is not NoFields


class _Declare(Protocol):
    def __call__[Request: RequestModel, Response: ResponseModel](
        self, run: Callable[[Context[Request]], Response], /
    ) -> Operation[Request, Response]: ...


def operation(
    method: Method,
    path: str,
    *,
    name: str,
    summary: str,
    status: HTTPStatus = HTTPStatus.OK,
    errors: Mapping[HTTPStatus, str] | None = None,
    is_slow: bool = False,
    reads_calls: bool = False,
) -> _Declare:
    """Return a decorator that turns the function that carries out an operation into an ``Operation``.

    The models of request and response are read from the annotations of the function."""

    def declare[Request: RequestModel, Response: ResponseModel](
        run: Callable[[Context[Request]], Response],
    ) -> Operation[Request, Response]:
        types = get_type_hints(run)
        (request,) = get_args(types["context"])
        return Operation(
            method=method,
            path=path,
            name=name,
            summary=summary,
            request=request,
            response=types["return"],
            run=run,
            status=status,
            errors=errors or {},
            is_slow=is_slow,
            reads_calls=reads_calls,
        )

    return declare


def streamed[Request: RequestModel, Response: ResponseModel](
    path: str, *, name: str, summary: str, request: type[Request], response: type[Response]
) -> Callable[[Callable[[Context[Request]], Iterator[bytes]]], Operation[Request, Response]]:
    """Return a decorator that turns a function that yields the JSON of a response into an ``Operation``.

    The operation is a GET that reads calls."""

    def declare(
        encode: Callable[[Context[Request]], Iterator[bytes]],
    ) -> Operation[Request, Response]:
        return Operation(
            method="GET",
            path=path,
            name=name,
            summary=summary,
            request=request,
            response=response,
            run=lambda context: response.model_validate_json(b"".join(encode(context))),
            status=HTTPStatus.OK,
            encode=encode,
            reads_calls=True,
        )

    return declare


def list_declared(module: ModuleType) -> list[Operation[Any, Any]]:
    """Return the operations that a module declares, in the order of their declarations."""
    return [each for each in vars(module).values() if isinstance(each, Operation)]
