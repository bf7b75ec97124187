"""The operations on service API keys, and their models."""

from http import HTTPStatus
from typing import Annotated

from pydantic import Field

from manage.api.operation import Context, operation
from store.json_models import (
    Done,
    Instant,
    ListResponse,
    Name,
    NoFields,
    PageQuery,
    RequestModel,
    ResponseModel,
)

_KeyId = Annotated[str, Field(json_schema_extra={"format": "uuid"})]


class NewKey(RequestModel):
    name: Name


class Key(ResponseModel):
    id: _KeyId
    name: str
    key_prefix: str
    last_used_at: Annotated[
        Instant | None, Field(description="To the minute; null until the key is first used.")
    ]
    created_at: Instant


class KeyPage(ListResponse):
    items: list[Key]


class CreatedKey(ResponseModel):
    id: _KeyId
    name: str
    key: Annotated[str, Field(description="The key itself, which no other response contains.")]
    key_prefix: str
    created_at: Instant


@operation(
    "GET",
    "/api-keys",
    name="listApiKeys",
    summary="Your own service API keys, newest first.",
)
def list_keys(context: Context[PageQuery]) -> KeyPage:
    query = context.request
    page = context.management.list_keys(context.caller, query.cursor, query.limit)
    return KeyPage.of_page(page, Key.of)


@operation(
    "POST",
    "/api-keys",
    name="createApiKey",
    summary="Create a service API key. This response is the only place where the key itself is.",
    status=HTTPStatus.CREATED,
)
def create_key(context: Context[NewKey]) -> CreatedKey:
    key, raw = context.management.create_key(context.caller, context.request.name)
    return CreatedKey.of(key, key=raw)


@operation(
    "DELETE",
    "/api-keys/{id}",
    name="deleteApiKey",
    summary="Delete one of your service API keys. It stops working immediately.",
    errors={
        HTTPStatus.FORBIDDEN: "Only its owner may delete a key.",
        HTTPStatus.NOT_FOUND: "There is no such key in your organisation.",
    },
)
def delete_key(context: Context[NoFields]) -> Done:
    context.management.delete_key(context.caller, context.id)
    return Done()
