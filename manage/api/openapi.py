"""The OpenAPI document, made from the same table of operations that serves the requests."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from manage.api.models import Error
from manage.api.operation import Operation

type Document = dict[str, Any]

MAX_BODY_BYTES = 64 * 1024
_REFERENCE = "#/components/schemas/{model}"
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


def make_document(operations: Sequence[Operation[Any, Any]], base_url: str) -> Document:
    paths: dict[str, Document] = {}
    for operation in operations:
        item = paths.setdefault(f"/api{operation.path}", {})
        item[operation.method.lower()] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Taximeter management API",
            "version": "1",
            "description": "Proxy endpoints, service API keys and usage of your organisation.",
        },
        "servers": [{"url": base_url}],
        "security": [{"serviceApiKey": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "serviceApiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A service API key: sk_ and 43 characters.",
                }
            },
            "schemas": _make_schemas(operations),
        },
    }


def _make_schemas(operations: Sequence[Operation[Any, Any]]) -> Document:
    models: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {(Error, "serialization"): None}
    for operation in operations:
        models[operation.response, "serialization"] = None
        if operation.takes_body:
            models[operation.request, "validation"] = None
    _, schema = models_json_schema(list(models), ref_template=_REFERENCE)
    schemas: Document = schema["$defs"]
    return schemas


def _describe(operation: Operation[Any, Any]) -> Document:
    described: Document = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": _describe_responses(operation),
    }
    parameters = [*_path_parameters(operation), *_query_parameters(operation)]
    if parameters:
        described["parameters"] = parameters
    if operation.takes_body:
        described["requestBody"] = {"required": True, "content": _json_of(operation.request)}
    return described


def _path_parameters(operation: Operation[Any, Any]) -> list[Document]:
    if "{id}" not in operation.path:
        return []
    schema = {"type": "string", "minLength": 1}
    return [{"name": "id", "in": "path", "required": True, "schema": schema}]


def _query_parameters(operation: Operation[Any, Any]) -> list[Document]:
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
    """Return the schema of a query parameter: a query can leave a parameter out, but cannot send
    null."""
    given: Document = next((s for s in schema.get("anyOf", ()) if s.get("type") != "null"), {})
    return {
        key: value
        for key, value in (schema | given).items()
        if key not in ("anyOf", "title") and value is not None
    }


def _describe_responses(operation: Operation[Any, Any]) -> Document:
    described: Document = {
        str(operation.status.value): {
            "description": operation.status.phrase,
            "content": _json_of(operation.response),
        }
    }
    errors = _INVALID | _ERRORS | dict(operation.errors)
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
