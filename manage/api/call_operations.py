"""The operations that read calls with all that is known of each, and their models."""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal

import orjson
from pydantic import BeforeValidator, Field

from manage.api.operation import Context, operation, streamed
from manage.api.validation import parse_instant
from runtime.errors import NotFoundError
from store.json_models import Instant, RequestModel, ResponseModel, RowsResponse, parse_whole_number
from store.pagination import DEFAULT_LIMIT
from store.traces.calls.call_list import read_calls
from store.traces.calls.call_reader import Side
from store.traces.calls.one_call import BodyWish, read_one_call
from store.traces.calls.reader import EntryFilter

MAX_CALLS = 1000
MAX_PART_CHARS, PART_CHARS = 64_000, 4_000
MAX_OFFSET = 1 << 30


class CallsQuery(RequestModel):
    since: Annotated[
        Instant | None, Field(description="Calls that arrived then or later: ISO 8601.")
    ] = None
    until: Annotated[Instant | None, Field(description="Calls that arrived before: ISO 8601.")] = (
        None
    )
    slugs: Annotated[
        str | None, Field(description="The slugs of proxy endpoints, separated by commas.")
    ] = None
    model: Annotated[str | None, Field(description="A model; * and ? are wildcards.")] = None
    user: Annotated[str | None, Field(description="A user that clients name.")] = None
    project: Annotated[str | None, Field(description="A project that clients name.")] = None
    tag: Annotated[str | None, Field(description="A tag: `key:value`, or one without a key.")] = (
        None
    )
    bodies: Annotated[
        Literal["yes", "no"],
        Field(
            description="Whether request_body and response_body are there, and what an import needs besides."
        ),
    ] = "no"
    cursor: Annotated[str | None, Field(description="nextCursor of the page before.")] = None
    limit: Annotated[
        int,
        Field(
            ge=1, le=MAX_CALLS, description="How many calls at most; a page ends sooner at 8 MB."
        ),
        BeforeValidator(parse_whole_number),
    ] = DEFAULT_LIMIT

    def make_filter(self) -> EntryFilter:
        """Return the filter for the calls that the query selects. Raises InvalidInputError."""
        return EntryFilter(
            since=parse_instant(self.since, "since"),
            until=parse_instant(self.until, "until"),
            slugs=() if self.slugs is None else self.slugs.split(","),
            model=self.model,
            user=self.user,
            project=self.project,
            tag=self.tag,
        )


class Calls(RowsResponse):
    items: Annotated[
        Sequence[Mapping[str, Any]],
        Field(description="The oldest first, each with the columns of usage_log."),
    ]


@streamed(
    "/calls",
    name="listCalls",
    summary="The calls of your organisation, the oldest first, with all columns of usage_log.",
    request=CallsQuery,
    response=Calls,
)
def list_calls(context: Context[CallsQuery]) -> Iterator[bytes]:
    query = context.request
    page = read_calls(
        context.trace_path,
        context.caller.organization_id,
        query.make_filter(),
        query.cursor,
        query.limit,
        with_bodies=query.bodies == "yes",
    )
    yield b'{"columns":' + orjson.dumps(page.columns) + b',"items":'
    yield from page.encode_items()
    cursor = page.next_cursor
    yield b',"nextCursor":%b,"hasMore":%b}' % tuple(map(orjson.dumps, (cursor, cursor is not None)))


class CallQuery(RequestModel):
    body: Annotated[
        Side | None, Field(description="Whether a part of the request or response body is wanted.")
    ] = None
    offset: Annotated[
        int,
        Field(ge=0, le=MAX_OFFSET, description="Where the part begins, in characters."),
        BeforeValidator(parse_whole_number),
    ] = 0
    length: Annotated[
        int,
        Field(ge=1, le=MAX_PART_CHARS, description="How many characters the part has at most."),
        BeforeValidator(parse_whole_number),
    ] = PART_CHARS


class PartOfBody(ResponseModel):
    side: Side
    offset: int
    text: str
    next_offset: Annotated[
        int | None, Field(description="Where the rest begins; null at the end of the body.")
    ]


class CallDetails(ResponseModel):
    call: Annotated[
        Mapping[str, Any], Field(description="The columns of usage_log without the bodies.")
    ]
    cost_items: Sequence[Mapping[str, Any]]
    rate_limits: Mapping[str, Any] | None
    predecessor: Annotated[
        Mapping[str, Any] | None, Field(description="The call that it continues.")
    ]
    cache_break: Mapping[str, Any] | None
    tool_uses: Sequence[Mapping[str, Any]]
    annotations: Annotated[Mapping[str, Any], Field(description="Its labels and its note.")]
    body: Annotated[
        PartOfBody | None, Field(description="null where none is wanted or it was not kept.")
    ] = None


@operation(
    "GET",
    "/calls/{id}",
    name="getCall",
    summary="A call by its id or that of its entry, with its cost and what broke its cache.",
    errors={HTTPStatus.NOT_FOUND: "There is no such call in your organisation."},
    reads_calls=True,
)
def get_call(context: Context[CallQuery]) -> CallDetails:
    query = context.request
    wish = None
    if query.body is not None:
        wish = BodyWish(side=query.body, offset=query.offset, length=query.length)
    found = read_one_call(context.trace_path, context.id, wish)
    if found is None:
        raise NotFoundError(f"there is no call {context.id!r}")
    part = None if found.part is None else PartOfBody.of(found.part)
    return CallDetails.of(found, body=part, **found.details)
