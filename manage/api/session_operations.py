"""The operations that read sessions, and the models of their requests."""

from http import HTTPStatus
from typing import Annotated, Literal

from pydantic import Field

from manage.api.operation import Context, operation
from manage.api.validation import parse_instant
from runtime.errors import NotFoundError
from store.json_models import Instant, NoFields, PageQuery
from store.traces.sessions.opened import open_session, read_file
from store.traces.sessions.session_list import SessionFilter, list_page
from store.traces.sessions.session_model import OpenedSession, SessionList


class SessionsQuery(PageQuery):
    order: Annotated[
        Literal["time", "cost"],
        Field(
            description="time: the one that ended last first. cost: one page of the most expensive, by default of those that ended in the last 7 days."
        ),
    ] = "time"
    since: Annotated[
        Instant | None, Field(description="Sessions that ended then or later: ISO 8601.")
    ] = None
    endpoint: Annotated[str | None, Field(description="The slug of a proxy endpoint.")] = None


@operation(
    "GET",
    "/sessions",
    name="findSessions",
    summary="The sessions of your organisation, the one that ended last first, or by cost.",
    reads_calls=True,
)
def list_sessions(context: Context[SessionsQuery]) -> SessionList:
    query = context.request
    only = SessionFilter(since=parse_instant(query.since, "since"), slug=query.endpoint)
    return SessionList.make(
        read_file(
            context.trace_path,
            lambda reader: list_page(
                reader,
                query.limit,
                query.cursor,
                by_cost=query.order == "cost",
                where=only.make_condition(),
                since=only.since,
            ),
        )
    )


@operation(
    "GET",
    "/sessions/{id}",
    name="readSession",
    summary="A session with its agents, its last turns and the calls that broke the cache.",
    errors={HTTPStatus.NOT_FOUND: "There is no such session in your organisation."},
    reads_calls=True,
)
def get_session(context: Context[NoFields]) -> OpenedSession:
    found = read_file(context.trace_path, lambda reader: open_session(reader, context.id))
    if found is None:
        raise NotFoundError(f"there is no session {context.id!r}: `taximeter sessions` lists them")
    return OpenedSession.make(found)
