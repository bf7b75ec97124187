"""The operations that read sessions, and the models of their requests."""

from http import HTTPStatus
from typing import Annotated, Literal

from pydantic import Field

from manage.api.operation import Context, operation
from manage.api.validation import parse_instant
from store.json_models import Instant, NoFields, PageQuery
from store.traces.sessions.session_list import SessionFilter
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
    listed = context.management.list_sessions(
        context.caller, only, query.cursor, query.limit, by_cost=query.order == "cost"
    )
    return SessionList.make(listed)


@operation(
    "GET",
    "/sessions/{id}",
    name="readSession",
    summary="A session with its agents, its last turns and the calls that broke the cache.",
    errors={HTTPStatus.NOT_FOUND: "There is no such session in your organisation."},
    reads_calls=True,
)
def get_session(context: Context[NoFields]) -> OpenedSession:
    return OpenedSession.make(context.management.get_session(context.caller, context.id))
