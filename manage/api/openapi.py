"""The OpenAPI document, made from the same table of operations that serves the requests.

It also describes the JSON pages that the dashboard declares and serves."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from manage.api.operation import Operation
from store.json_models import Error, JsonPage

type Document = dict[str, Any]
type Described = Operation[Any, Any] | JsonPage

MAX_BODY_BYTES = 64 * 1024
_REFERENCE = "#/components/schemas/{model}"
_BY_KEY: Document = {"serviceApiKey": []}
_BY_COOKIE: Document = {"signedIn": []}
_ERRORS = {
    HTTPStatus.UNAUTHORIZED: "The service API key is missing, unknown or deleted.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many unknown keys were sent from your address.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The database is busy or cannot be used at the moment.",
}
_BODY_ERRORS = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: f"The body is larger than {MAX_BODY_BYTES} bytes.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not application/json.",
}
_INVALID = {HTTPStatus.BAD_REQUEST: "The request is not valid; field names the part at fault."}
_HEADERS = {
    HTTPStatus.UNAUTHORIZED: ("WWW-Authenticate", {"type": "string", "const": "Bearer"}),
    HTTPStatus.TOO_MANY_REQUESTS: ("Retry-After", {"type": "integer", "minimum": 1}),
    HTTPStatus.SERVICE_UNAVAILABLE: ("Retry-After", {"type": "integer", "minimum": 1}),
}


def make_document(
    operations: Sequence[Operation[Any, Any]], pages: Sequence[JsonPage], base_url: str
) -> Document:
    """Return the OpenAPI document of the operations below ``/api`` and of the JSON pages."""
    paths: dict[str, Document] = {}
    for operation in operations:
        item = paths.setdefault(f"/api{operation.path}", {})
        item[operation.method.lower()] = _describe(operation)
    for page in pages:
        paths[page.path] = {"get": _describe(page) | {"security": [_BY_KEY, _BY_COOKIE]}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Taximeter management API",
            "version": "1",
            "description": "Proxy endpoints, service API keys, usage, sessions and calls of your"
            " organisation.",
        },
        "servers": [{"url": base_url}],
        "security": [_BY_KEY],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "serviceApiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A service API key: sk_ and 43 characters.",
                },
                "signedIn": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "taximeter",
                    "description": "The cookie of somebody who is signed in. Its name depends on"
                    " the address of the service.",
                },
            },
            "schemas": _make_schemas([*operations, *pages]),
        },
    }


def _make_schemas(operations: Sequence[Described]) -> Document:
    models: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {(Error, "serialization"): None}
    for operation in operations:
        models[operation.response, "serialization"] = None
        if isinstance(operation, Operation) and operation.takes_body:
            models[operation.request, "validation"] = None
    _, schema = models_json_schema(list(models), ref_template=_REFERENCE)
    schemas: Document = schema["$defs"]
    return schemas


def _describe(operation: Described) -> Document:
    described: Document = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": _describe_responses(operation),
    }
    parameters = [*_path_parameters(operation), *_query_parameters(operation)]
    if parameters:
        described["parameters"] = parameters
    if isinstance(operation, Operation) and operation.takes_body:
        described["requestBody"] = {"required": True, "content": _json_of(operation.request)}
    return described


def _path_parameters(operation: Described) -> list[Document]:
    schema = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]


def _query_parameters(operation: Described) -> list[Document]:
    properties = operation.query.model_json_schema().get("properties", {})
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": schema.pop("description"),
            "schema": _without_null(schema),
        }
        for name, schema in properties.items()
    ]


def _without_null(schema: Document) -> Document:
    """Return the schema of a query parameter without null, which a query cannot send."""
    given: Document = next((s for s in schema.get("anyOf", ()) if s.get("type") != "null"), {})
    return {
        key: value
        for key, value in (schema | given).items()
        if key not in ("anyOf", "title") and value is not None
    }


def _describe_responses(operation: Described) -> Document:
    success = HTTPStatus(operation.status)
    described: Document = {
        str(success.value): {
            "description": success.phrase,
            "content": _json_of(operation.response),
        }
    }
    errors = _INVALID | _ERRORS | {HTTPStatus(code): why for code, why in operation.errors.items()}
    if operation.takes_body:
        errors |= _BODY_ERRORS
    for status, why in sorted(errors.items()):
        described[str(status.value)] = {"description": why, "content": _json_of(Error)}
        if status in _HEADERS:
            name, schema = _HEADERS[status]
            described[str(status.value)]["headers"] = {name: {"required": True, "schema": schema}}
    return described


def _json_of(model: type[BaseModel]) -> Document:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}}
