"""The parts that models of requests and responses are made of. Requests are validated by such models,
responses are written and read by them, and the OpenAPI document describes them.

Only the wire's spelling and types are here. What makes a good name or slug is said once, in
``store``; the document quotes it from there.
"""

import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from metering import token_counts
from metering.token_counts import flatten
from store import pagination
from store.control import names, slugs
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


class RequestModel(BaseModel):
    """Unknown fields are refused, and nothing is turned into what it is not."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class NoFields(RequestModel):
    """Where a request has neither query nor body."""


class ResponseModel(BaseModel):
    """The document says that there are no other fields. A client of an older version still reads what
    a newer service adds, and leaves it out; so a field added later needs a default."""

    model_config = ConfigDict(
        extra="ignore",
        strict=True,
        frozen=True,
        validate_by_name=True,
        validate_by_alias=True,
        json_schema_extra={"additionalProperties": False},
    )


# -- requests --------------------------------------------------------------------------------------


class PageQuery(RequestModel):
    cursor: Annotated[
        str | None,
        Field(description="nextCursor of the page before.", json_schema_extra={"minLength": 1}),
    ] = None
    limit: Annotated[
        int,
        Field(ge=1, le=pagination.MAX_LIMIT, description="How many items at most."),
        BeforeValidator(_parse_whole_number),
    ] = pagination.DEFAULT_LIMIT


class UsageQuery(RequestModel):
    by: Annotated[Grouping, Field(description="What to group by.")] = "day"
    from_day: Annotated[
        Day | None, Field(alias="from", description="The first day, UTC. Default: the oldest.")
    ] = None
    to_day: Annotated[
        Day | None, Field(alias="to", description="The last day, UTC. Default: the newest.")
    ] = None


# -- responses -------------------------------------------------------------------------------------


class ListResponse(ResponseModel):
    """One page of a list."""

    items: Sequence[ResponseModel]
    next_cursor: Annotated[
        str | None, Field(alias="nextCursor", description="null on the last page.")
    ]
    has_more: Annotated[bool, Field(alias="hasMore")]


class Done(ResponseModel):
    ok: Literal[True] = True


class _Calls(ResponseModel):
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


class Usage(ResponseModel):
    by: Grouping
    from_day: Annotated[Day | None, Field(alias="from")]
    to_day: Annotated[Day | None, Field(alias="to")]
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


class Run(ResponseModel):
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


class ErrorDetail(ResponseModel):
    code: str
    message: str
    field: Annotated[str | None, Field(description="The input at fault, where one is.")] = None


class Error(ResponseModel):
    error: ErrorDetail
