"""The operations on proxy endpoints, and their models."""

from http import HTTPStatus
from typing import Annotated, Any, Self

from pydantic import Field

from manage.api.operation import NO_ENDPOINT, Context, operation
from runtime import clock
from runtime.setting_values import SERVICE_UPSTREAM
from runtime.settings import Streaming
from store.control.endpoints import ProxyEndpoint
from store.json_models import (
    Done,
    Instant,
    ListResponse,
    Name,
    NoFields,
    PageQuery,
    RequestModel,
    ResponseModel,
    Slug,
)

type UpstreamName = Annotated[str, Field(max_length=63)]


class NewEndpoint(RequestModel):
    name: Name
    slug: Annotated[Slug | None, Field(description="Default: made from the name.")] = None
    streaming: Annotated[Streaming | None, Field(description="null: the service's setting.")] = None
    metadata_only: Annotated[
        bool,
        Field(
            description="Store no bodies, only names, numbers, cost and times. Left out, a slug that is made"
            " again has what it had before."
        ),
    ] = False
    upstream: Annotated[
        UpstreamName | None,
        Field(
            description="null: the service's. Left out, a slug that is made again has what it had before."
        ),
    ] = None


class EndpointChange(RequestModel):
    """The changes to a proxy endpoint. A field that the request leaves out is not changed.

    ``model_fields_set`` has the fields that were given. ``name`` and ``metadata_only`` cannot be null,
    so they have a ``default_factory``: pydantic would write a ``default`` into the OpenAPI document."""

    name: Name = Field(default_factory=str)
    streaming: Annotated[
        Streaming | None, Field(default=None, description="null: the service's setting.")
    ]
    metadata_only: bool = Field(default_factory=bool)
    upstream: Annotated[
        UpstreamName | None, Field(default=None, description="null: the service's.")
    ]


class Endpoint(ResponseModel):
    id: str
    name: str
    slug: Slug
    url: Annotated[str, Field(description="What a client is configured with as its base URL.")]
    created_at: Instant
    streaming: Annotated[Streaming | None, Field(description="null: the service's setting.")]
    metadata_only: bool
    upstream: Annotated[
        UpstreamName | None,
        Field(
            description="The upstream that its calls go to, one of those that the operator has named; null:"
            " the service's."
        ),
    ] = None
    upstream_url: Annotated[
        str | None,
        Field(
            description="The address of that upstream; null: the operator does not name it any more."
        ),
    ] = None

    @classmethod
    def make(cls, endpoint: ProxyEndpoint, context: Context[Any]) -> Self:
        upstream = context.management.find_upstream(endpoint.upstream)
        return cls.of(
            endpoint,
            url=context.endpoint_url(endpoint.slug),
            upstream_url=None if upstream is None else str(upstream),
            created_at=clock.format_seconds(clock.parse_instant(endpoint.created_at)),
        )


class EndpointPage(ListResponse):
    items: list[Endpoint]


@operation(
    "GET",
    "/proxy-endpoints",
    name="listProxyEndpoints",
    summary="The proxy endpoints of your organisation, newest first.",
)
def list_endpoints(context: Context[PageQuery]) -> EndpointPage:
    query = context.request
    page = context.management.list_endpoints(context.caller, query.cursor, query.limit)
    return EndpointPage.of_page(page, lambda each: Endpoint.make(each, context))


@operation(
    "POST",
    "/proxy-endpoints",
    name="createProxyEndpoint",
    summary="Create a proxy endpoint, or make a deleted one again by its slug. It works immediately.",
    status=HTTPStatus.CREATED,
    errors={
        HTTPStatus.FORBIDDEN: "Only an owner of the organisation may change whether bodies are stored and to which upstream calls go, also of a slug that is made again.",
        HTTPStatus.CONFLICT: "The slug is taken, or reserved for another organisation; or there are as many endpoints as the service allows.",
    },
)
def create_endpoint(context: Context[NewEndpoint]) -> Endpoint:
    new, given = context.request, context.request.model_fields_set
    endpoint = context.management.create_endpoint(
        context.caller,
        new.name,
        new.slug,
        new.streaming,
        metadata_only=new.metadata_only if "metadata_only" in given else None,
        upstream=new.upstream or SERVICE_UPSTREAM if "upstream" in given else None,
    )
    return Endpoint.make(endpoint, context)


@operation(
    "GET",
    "/proxy-endpoints/{id}",
    name="getProxyEndpoint",
    summary="One proxy endpoint, by its id or slug.",
    errors=NO_ENDPOINT,
)
def get_endpoint(context: Context[NoFields]) -> Endpoint:
    endpoint = context.management.get_endpoint(context.caller, context.id)
    return Endpoint.make(endpoint, context)


@operation(
    "PATCH",
    "/proxy-endpoints/{id}",
    name="updateProxyEndpoint",
    summary="Change a proxy endpoint, by its id or slug. The change applies from the next call on.",
    errors=NO_ENDPOINT
    | {
        HTTPStatus.FORBIDDEN: "Only an owner of the organisation may change an endpoint that has a budget or a retention rule, whether bodies are stored, and to which upstream calls go."
    },
)
def update_endpoint(context: Context[EndpointChange]) -> Endpoint:
    change, given = context.request, context.request.model_fields_set
    endpoint = context.management.update_endpoint(
        context.caller,
        context.id,
        name=change.name if "name" in given else None,
        streaming=change.streaming or "service" if "streaming" in given else None,
        metadata_only=change.metadata_only if "metadata_only" in given else None,
        upstream=change.upstream or SERVICE_UPSTREAM if "upstream" in given else None,
    )
    return Endpoint.make(endpoint, context)


@operation(
    "DELETE",
    "/proxy-endpoints/{id}",
    name="deleteProxyEndpoint",
    summary="Delete a proxy endpoint, by its id or slug. Its recorded calls are kept.",
    errors=NO_ENDPOINT
    | {
        HTTPStatus.FORBIDDEN: "Only an owner of the organisation may delete an endpoint that has a budget or a retention rule."
    },
)
def delete_endpoint(context: Context[NoFields]) -> Done:
    context.management.delete_endpoint(context.caller, context.id)
    return Done()
