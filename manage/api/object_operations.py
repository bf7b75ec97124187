"""The operation that lists managed sessions and dreams, with all that is known of each."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from manage.api.operation import Context, operation
from manage.api.validation import parse_instant
from store.json_models import Instant, RequestModel, RowsResponse, parse_whole_number
from store.pagination import DEFAULT_LIMIT
from store.traces.calls.exported_object import read_objects
from store.traces.calls.reader import EntryFilter

MAX_OBJECTS = 1000


class ObjectsQuery(RequestModel):
    since: Annotated[
        Instant | None, Field(description="Those that were created then or later: ISO 8601.")
    ] = None
    until: Annotated[Instant | None, Field(description="Those that were created before.")] = None
    slugs: Annotated[
        str | None, Field(description="The slugs of proxy endpoints, separated by commas.")
    ] = None
    cursor: Annotated[str | None, Field(description="nextCursor of the page before.")] = None
    limit: Annotated[
        int,
        Field(ge=1, le=MAX_OBJECTS, description="How many at most."),
        BeforeValidator(parse_whole_number),
    ] = DEFAULT_LIMIT

    def make_filter(self) -> EntryFilter:
        """Return the filter for the managed sessions and dreams that the query selects. Raises
        InvalidInputError."""
        return EntryFilter(
            since=parse_instant(self.since, "since"),
            until=parse_instant(self.until, "until"),
            slugs=() if self.slugs is None else self.slugs.split(","),
        )


class UpstreamObjects(RowsResponse):
    items: Annotated[
        Sequence[Mapping[str, Any]],
        Field(description="By their ids, each with the columns of upstream_objects."),
    ]


@operation(
    "GET",
    "/upstream-objects",
    name="listUpstreamObjects",
    summary="The managed sessions and dreams of your organisation, with what each has used so far.",
    reads_calls=True,
)
def list_objects(context: Context[ObjectsQuery]) -> UpstreamObjects:
    query = context.request
    page = read_objects(
        context.trace_path,
        context.caller.organization_id,
        query.make_filter(),
        query.cursor,
        query.limit,
    )
    return UpstreamObjects(
        columns=page.columns,
        items=page.items,
        next_cursor=page.next_cursor,
        has_more=page.next_cursor is not None,
    )
