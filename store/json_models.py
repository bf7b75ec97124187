"""Base classes of the models of requests and responses, for the management API and JSON pages.

Requests are validated by these models, responses are written and read by them, and the OpenAPI
document is generated from them. They define only names and JSON types. The rules for names and
slugs are in ``store``."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from store import pagination
from store.control import names, slugs
from store.pagination import Listed, Page

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_WHOLE_NUMBER = re.compile(r"\d{1,9}", re.ASCII)


def parse_whole_number(text: object) -> object:
    """Convert text of digits alone to an int, and return any other value unchanged.

    Raises ValueError for other texts that Python takes for a number (``+1``, ``1_0``, ``1.0``)."""
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
Cents = Annotated[float, Field(description="US cents.")]
# Adding up floats leaves digits that mean nothing.
SumOfCents = Annotated[Cents, AfterValidator(lambda cents: round(cents, 6))]

Limit = Annotated[
    int,
    Field(ge=1, le=pagination.MAX_LIMIT, description="Maximum number of items."),
    BeforeValidator(parse_whole_number),
]


class RequestModel(BaseModel):
    """A request. Unknown fields are refused, and no value is converted to another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class NoFields(RequestModel):
    """A request without query and body."""


class ResponseModel(BaseModel):
    """A response. The OpenAPI document says that it has no other fields.

    A client of an older version ignores the fields that a newer service adds. A newer client meets
    services that do not have them yet, so a field added later needs a default."""

    model_config = ConfigDict(
        extra="ignore",
        strict=True,
        frozen=True,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
        json_schema_extra={"additionalProperties": False},
    )

    @classmethod
    def of(cls, value: object, **fields: object) -> Self:
        """Return a response made of ``fields`` and, for other fields, the attributes of ``value``."""
        own = {
            name: getattr(value, name)
            for name in cls.model_fields
            if name not in fields and hasattr(value, name)
        }
        return cls.model_validate(own | fields, by_name=True)


# -- requests --------------------------------------------------------------------------------------


class PageQuery(RequestModel):
    cursor: Annotated[
        str | None,
        Field(description="nextCursor of the page before.", json_schema_extra={"minLength": 1}),
    ] = None
    limit: Limit = pagination.DEFAULT_LIMIT


# -- responses -------------------------------------------------------------------------------------


class ListResponse(ResponseModel):
    """One page of a list."""

    items: Sequence[ResponseModel]
    next_cursor: Annotated[
        str | None, Field(alias="nextCursor", description="null on the last page.")
    ]
    has_more: Annotated[bool, Field(alias="hasMore")]

    @classmethod
    def of_page[Item: Listed](cls, page: Page[Item], make: Callable[[Item], ResponseModel]) -> Self:
        """Return a page of a list, with each item converted by ``make``."""
        return cls.of(page, items=[make(each) for each in page.items])


class RowsResponse(ResponseModel):
    """One page of rows of a table, each with all of its columns."""

    columns: Annotated[
        Mapping[str, str], Field(description="The columns, with their types in the database.")
    ]
    items: Sequence[Mapping[str, Any]]
    next_cursor: Annotated[
        str | None, Field(alias="nextCursor", description="null on the last page.")
    ]
    has_more: Annotated[bool, Field(alias="hasMore")]


class Done(ResponseModel):
    ok: Literal[True] = True


class ErrorDetail(ResponseModel):
    code: str
    message: str
    field: Annotated[str | None, Field(description="The invalid input field, if there is one.")] = (
        None
    )


class Error(ResponseModel):
    error: ErrorDetail


# -- pages -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPage:
    """A page in JSON, as the OpenAPI document describes it among the operations."""

    path: str
    name: str
    summary: str
    query: type[RequestModel]
    response: type[ResponseModel]
    errors: Mapping[int, str] = field(default_factory=dict)
    status: int = 200
    takes_body: bool = False
