"""What the API takes and gives, field by field. Checks and the OpenAPI document come of these classes.

Only the wire's spelling and types are here. What makes a good name or slug is said once, in
``store``; the document quotes it from there.
"""

import re
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from metering import token_counts
from metering.token_counts import flatten
from runtime import clock
from runtime.settings import Streaming
from store import pagination
from store.control import names, slugs
from store.control.api_keys import ApiKey
from store.control.endpoints import ProxyEndpoint
from store.pagination import Page
from store.traces.usage_report import Group, Grouping, RunReport, Totals, UsageReport

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_WHOLE_NUMBER = re.compile(r"\d{1,9}", re.ASCII)


def _parse_whole_number(text: object) -> object:
    """Only digits: what else Python takes for a number (``+1``, ``1_0``, ``1.0``) is a typing error."""
    if isinstance(text, str):
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError("write a whole number")
        return int(text)
    return text


def _parse_day(text: object) -> object:
    if isinstance(text, str):
        if not _DAY.fullmatch(text):
            raise ValueError("write a day as YYYY-MM-DD")
        return date.fromisoformat(text)
    return text


Day = Annotated[
    date, BeforeValidator(_parse_day), WithJsonSchema({"type": "string", "format": "date"})
]
Name = Annotated[
    str,
    Field(
        description="A label for people: one line, without control characters.",
        json_schema_extra={"minLength": 1, "maxLength": names.MAX_LENGTH},
    ),
]
Slug = Annotated[
    str,
    Field(
        json_schema_extra={
            "pattern": f"^{slugs.PATTERN}$",
            "minLength": 1,
            "maxLength": slugs.MAX_LENGTH,
        }
    ),
]
Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class ApiModel(BaseModel):
    """Unknown fields are refused, and nothing is turned into what it is not."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Nothing(ApiModel):
    """Where nothing is taken."""


# -- what is asked ---------------------------------------------------------------------------------


class PageQuery(ApiModel):
    cursor: Annotated[
        str | None,
        Field(description="nextCursor of the page before.", json_schema_extra={"minLength": 1}),
    ] = None
    limit: Annotated[
        int,
        Field(ge=1, le=pagination.MAX_LIMIT, description="How many items at most."),
        BeforeValidator(_parse_whole_number),
    ] = pagination.DEFAULT_LIMIT


class UsageQuery(ApiModel):
    by: Annotated[Grouping, Field(description="What to group by.")] = "day"
    from_day: Annotated[
        Day | None, Field(alias="from", description="The first day, UTC. Default: the oldest.")
    ] = None
    to_day: Annotated[
        Day | None, Field(alias="to", description="The last day, UTC. Default: the newest.")
    ] = None


class NewEndpoint(ApiModel):
    name: Name
    slug: Annotated[Slug | None, Field(description="Made from the name when it is left out.")] = (
        None
    )
    streaming: Annotated[Streaming | None, Field(description="null: as the service is set.")] = None
    metadata_only: Annotated[
        bool, Field(description="Keep no bodies, only names, numbers, cost and times.")
    ] = False


class EndpointChange(ApiModel):
    """What is left out stays as it is: see ``model_fields_set``. The factories keep defaults that
    mean nothing out of the document."""

    name: Name = Field(default_factory=str)
    streaming: Annotated[
        Streaming | None, Field(default=None, description="null: as the service is set.")
    ]
    metadata_only: bool = Field(default_factory=bool)


class NewKey(ApiModel):
    name: Name


# -- what is answered ------------------------------------------------------------------------------


class Endpoint(ApiModel):
    id: str
    name: str
    slug: Slug
    url: Annotated[str, Field(description="What a client is configured with as its base URL.")]
    created_at: Instant
    streaming: Annotated[Streaming | None, Field(description="null: as the service is set.")]
    metadata_only: bool

    @classmethod
    def make(cls, endpoint: ProxyEndpoint, endpoint_url: Callable[[str], str]) -> Self:
        return cls(
            id=endpoint.id,
            name=endpoint.name,
            slug=endpoint.slug,
            url=endpoint_url(endpoint.slug),
            created_at=clock.format_seconds(clock.parse_instant(endpoint.created_at)),
            streaming=endpoint.streaming,
            metadata_only=endpoint.metadata_only,
        )


NextCursor = Annotated[
    str | None,
    Field(serialization_alias="nextCursor", description="null on the last page."),
]
HasMore = Annotated[bool, Field(serialization_alias="hasMore")]


class EndpointPage(ApiModel):
    items: list[Endpoint]
    next_cursor: NextCursor
    has_more: HasMore

    @classmethod
    def make(cls, page: Page[ProxyEndpoint], endpoint_url: Callable[[str], str]) -> Self:
        items = [Endpoint.make(endpoint, endpoint_url) for endpoint in page.items]
        return cls(items=items, next_cursor=page.next_cursor, has_more=page.has_more)


class Key(ApiModel):
    id: Annotated[str, Field(json_schema_extra={"format": "uuid"})]
    name: str
    key_prefix: str
    last_used_at: Annotated[
        Instant | None, Field(description="To the minute; null until the key is first used.")
    ]
    created_at: Instant


class KeyPage(ApiModel):
    items: list[Key]
    next_cursor: NextCursor
    has_more: HasMore

    @classmethod
    def make(cls, page: Page[ApiKey]) -> Self:
        items = [
            Key(
                id=key.id,
                name=key.name,
                key_prefix=key.key_prefix,
                last_used_at=key.last_used_at,
                created_at=key.created_at,
            )
            for key in page.items
        ]
        return cls(items=items, next_cursor=page.next_cursor, has_more=page.has_more)


class CreatedKey(ApiModel):
    id: Annotated[str, Field(json_schema_extra={"format": "uuid"})]
    name: str
    key: Annotated[str, Field(description="The key itself. It is shown here and never again.")]
    key_prefix: str
    created_at: Instant

    @classmethod
    def make(cls, key: ApiKey, raw: str) -> Self:
        return cls(
            id=key.id, name=key.name, key=raw, key_prefix=key.key_prefix, created_at=key.created_at
        )


class Done(ApiModel):
    ok: Literal[True] = True


class _Calls(ApiModel):
    calls: int
    errors: Annotated[int, Field(description="Calls that failed; a client that left is no error.")]


_TOKEN_FIELDS: dict[str, Any] = dict.fromkeys(token_counts.NAMES, int)
_CallsAndTokens = create_model("_CallsAndTokens", __base__=_Calls, **_TOKEN_FIELDS)


class UsageTotals(_CallsAndTokens):  # type: ignore[misc, valid-type]  # made from the classes of tokens
    cost_cents: Annotated[float, Field(description="Without the calls that are unpriced.")]
    unpriced: Annotated[int, Field(description="Calls with usage but without a known price.")]
    rejected: Annotated[
        int | None,
        Field(
            description="Requests over the rate limit, which are no calls. null by model and of a run."
        ),
    ]

    @classmethod
    def make(cls, totals: Totals) -> Self:
        return cls(**flatten(totals))


class UsageGroup(UsageTotals):
    day: Annotated[str | None, Field(description="By day.", json_schema_extra={"format": "date"})]
    model: Annotated[str | None, Field(description="By model; null also for an unknown one.")]
    proxy_endpoint_id: Annotated[str | None, Field(description="By endpoint.")]
    slug: Annotated[str | None, Field(description="By endpoint.")]

    @classmethod
    def make_group(cls, group: Group) -> Self:
        return cls(
            day=group.day,
            model=group.model,
            proxy_endpoint_id=group.proxy_endpoint_id,
            slug=group.slug,
            **flatten(group.totals),
        )


class Usage(ApiModel):
    by: Grouping
    from_day: Annotated[Day | None, Field(serialization_alias="from")]
    to_day: Annotated[Day | None, Field(serialization_alias="to")]
    totals: UsageTotals
    groups: Annotated[
        list[UsageGroup],
        Field(description="Days newest first; models and endpoints dearest first."),
    ]

    @classmethod
    def make(cls, report: UsageReport) -> Self:
        return cls(
            by=report.by,
            from_day=report.from_day,
            to_day=report.to_day,
            totals=UsageTotals.make(report.totals),
            groups=[UsageGroup.make_group(group) for group in report.groups],
        )


class Run(ApiModel):
    run_id: str
    pending: Annotated[
        int, Field(description="Calls of the run that are not recorded yet, and not in the totals.")
    ]
    totals: UsageTotals
    models: Annotated[list[UsageGroup], Field(description="Dearest first.")]

    @classmethod
    def make(cls, report: RunReport) -> Self:
        return cls(
            run_id=report.run_id,
            pending=report.pending,
            totals=UsageTotals.make(report.totals),
            models=[UsageGroup.make_group(group) for group in report.models],
        )


class ErrorDetail(ApiModel):
    code: str
    message: str
    field: Annotated[str | None, Field(description="The input at fault, where one is.")] = None


class Error(ApiModel):
    error: ErrorDetail
