"""Every operation of the API: where it is, what it takes and gives, how it can be refused, and the few
lines that carry it out. Requests are routed and checked by this table, and the OpenAPI document is made
from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

from manage.api.models import (
    ApiModel,
    CreatedKey,
    Done,
    Endpoint,
    EndpointChange,
    EndpointPage,
    KeyPage,
    NewEndpoint,
    NewKey,
    Nothing,
    PageQuery,
    Run,
    Usage,
    UsageQuery,
)
from store.control.management import Management
from store.control.people import Caller

type Method = Literal["GET", "POST", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked[Query: ApiModel, Body: ApiModel]:
    """One request, checked. ``id`` is what the path names, empty where it names nothing."""

    management: Management
    caller: Caller
    endpoint_url: Callable[[str], str]
    id: str
    query: Query
    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation[Query: ApiModel, Body: ApiModel]:
    """``refusals``: what this one may answer besides what every one may, and why. The text for 404
    and 403 is also what the caller is told."""

    method: Method
    path: str
    name: str
    summary: str
    query: type[Query]
    body: type[Body]
    answer: type[ApiModel]
    run: Callable[[Asked[Query, Body]], ApiModel]
    status: HTTPStatus = HTTPStatus.OK
    refusals: Mapping[HTTPStatus, str] = field(default_factory=dict)

    @property
    def takes_body(self) -> bool:
        return self.body is not Nothing


def list_endpoints(asked: Asked[PageQuery, Nothing]) -> EndpointPage:
    page = asked.management.list_endpoints(asked.caller, asked.query.cursor, asked.query.limit)
    return EndpointPage.make(page, asked.endpoint_url)


def get_endpoint(asked: Asked[Nothing, Nothing]) -> Endpoint:
    endpoint = asked.management.get_endpoint(asked.caller, asked.id)
    return Endpoint.make(endpoint, asked.endpoint_url)


def create_endpoint(asked: Asked[Nothing, NewEndpoint]) -> Endpoint:
    new = asked.body
    endpoint = asked.management.create_endpoint(
        asked.caller, new.name, new.slug, new.streaming, metadata_only=new.metadata_only
    )
    return Endpoint.make(endpoint, asked.endpoint_url)


def update_endpoint(asked: Asked[Nothing, EndpointChange]) -> Endpoint:
    change, given = asked.body, asked.body.model_fields_set
    endpoint = asked.management.update_endpoint(
        asked.caller,
        asked.id,
        name=change.name if "name" in given else None,
        streaming=change.streaming or "service" if "streaming" in given else None,
        metadata_only=change.metadata_only if "metadata_only" in given else None,
    )
    return Endpoint.make(endpoint, asked.endpoint_url)


def delete_endpoint(asked: Asked[Nothing, Nothing]) -> Done:
    asked.management.delete_endpoint(asked.caller, asked.id)
    return Done()


def list_keys(asked: Asked[PageQuery, Nothing]) -> KeyPage:
    page = asked.management.list_keys(asked.caller, asked.query.cursor, asked.query.limit)
    return KeyPage.make(page)


def create_key(asked: Asked[Nothing, NewKey]) -> CreatedKey:
    return CreatedKey.make(*asked.management.create_key(asked.caller, asked.body.name))


def delete_key(asked: Asked[Nothing, Nothing]) -> Done:
    asked.management.delete_key(asked.caller, asked.id)
    return Done()


def get_usage(asked: Asked[UsageQuery, Nothing]) -> Usage:
    query = asked.query
    return Usage.make(asked.management.usage(asked.caller, query.by, query.from_day, query.to_day))


def get_run(asked: Asked[Nothing, Nothing]) -> Run:
    return Run.make(asked.management.run_usage(asked.caller, asked.id))


_NO_ENDPOINT = {HTTPStatus.NOT_FOUND: "There is no such proxy endpoint in your organisation."}
_NO_KEY = {
    HTTPStatus.FORBIDDEN: "Only its owner may delete a key.",
    HTTPStatus.NOT_FOUND: "There is no such key in your organisation.",
}

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="GET",
        path="/proxy-endpoints",
        name="listProxyEndpoints",
        summary="The proxy endpoints of your organisation, newest first.",
        query=PageQuery,
        body=Nothing,
        answer=EndpointPage,
        run=list_endpoints,
    ),
    Operation(
        method="POST",
        path="/proxy-endpoints",
        name="createProxyEndpoint",
        summary="Create a proxy endpoint. It works at once.",
        query=Nothing,
        body=NewEndpoint,
        answer=Endpoint,
        run=create_endpoint,
        status=HTTPStatus.CREATED,
        refusals={
            HTTPStatus.CONFLICT: "The slug is taken, or reserved for another organisation; or there are as many endpoints as the service allows."
        },
    ),
    Operation(
        method="GET",
        path="/proxy-endpoints/{id}",
        name="getProxyEndpoint",
        summary="One proxy endpoint, by its id or slug.",
        query=Nothing,
        body=Nothing,
        answer=Endpoint,
        run=get_endpoint,
        refusals=_NO_ENDPOINT,
    ),
    Operation(
        method="PATCH",
        path="/proxy-endpoints/{id}",
        name="updateProxyEndpoint",
        summary="Change a proxy endpoint, by its id or slug. The next call follows it.",
        query=Nothing,
        body=EndpointChange,
        answer=Endpoint,
        run=update_endpoint,
        refusals=_NO_ENDPOINT,
    ),
    Operation(
        method="DELETE",
        path="/proxy-endpoints/{id}",
        name="deleteProxyEndpoint",
        summary="Delete a proxy endpoint, by its id or slug. Its traces stay.",
        query=Nothing,
        body=Nothing,
        answer=Done,
        run=delete_endpoint,
        refusals=_NO_ENDPOINT,
    ),
    Operation(
        method="GET",
        path="/api-keys",
        name="listApiKeys",
        summary="Your own service API keys, newest first.",
        query=PageQuery,
        body=Nothing,
        answer=KeyPage,
        run=list_keys,
    ),
    Operation(
        method="POST",
        path="/api-keys",
        name="createApiKey",
        summary="Create a service API key. The key itself is in this answer and nowhere else.",
        query=Nothing,
        body=NewKey,
        answer=CreatedKey,
        run=create_key,
        status=HTTPStatus.CREATED,
    ),
    Operation(
        method="DELETE",
        path="/api-keys/{id}",
        name="deleteApiKey",
        summary="Delete one of your service API keys. It fails at once.",
        query=Nothing,
        body=Nothing,
        answer=Done,
        run=delete_key,
        refusals=_NO_KEY,
    ),
    Operation(
        method="GET",
        path="/usage",
        name="getUsage",
        summary="Totals of your organisation's calls, by day, model or endpoint.",
        query=UsageQuery,
        body=Nothing,
        answer=Usage,
        run=get_usage,
    ),
    Operation(
        method="GET",
        path="/runs/{id}",
        name="getRun",
        summary="Totals of the calls of one run, and of each model. A run without calls has zeros.",
        query=Nothing,
        body=Nothing,
        answer=Run,
        run=get_run,
        refusals={
            HTTPStatus.NOT_FOUND: "There is no such run: an id has 1 to 64 letters, digits and . _ -"
        },
    ),
)
