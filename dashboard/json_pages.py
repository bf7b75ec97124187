"""The JSON pages: how they respond, and their description for the OpenAPI document.

The models of their responses are in the modules ``documents``.
"""

from typing import Annotated, Literal

from pydantic import Field
from starlette.responses import JSONResponse, Response

from dashboard.call_filters import MAX_CHARS as MAX_FILTER_CHARS
from dashboard.overview.documents import Overview
from dashboard.overview.filters import Name
from dashboard.overview.periods import DEFAULT_SPAN
from dashboard.rendering import PRIVATE
from dashboard.savings.documents import Savings, SessionSavings
from dashboard.savings.model_documents import SavingsModels
from dashboard.search.documents import SearchResults
from dashboard.tools.documents import Tools
from store.json_models import JsonPage, Limit, NoFields, PageQuery, RequestModel, ResponseModel
from store.traces.calls.limit_model import Limits
from store.traces.search.query import MAX_CHARS
from store.traces.search.walk import Role
from store.traces.sessions.session_model import OpenedSession, SessionList


class _SessionsQuery(PageQuery):
    order: Annotated[
        Literal["time", "cost"] | None,
        Field(description="cost: one page with the most expensive sessions of the last 7 days."),
    ] = None


_SPAN = "today, 7d, 14d, 30d, 90d, month, or two days such as 2026-01-01..2026-01-31. UTC."


class _SpanQuery(RequestModel):
    span: Annotated[str, Field(description=_SPAN)] = DEFAULT_SPAN


def _only(what: str, argument: str | None = None) -> str | None:
    """Return the model field for a filter. ``argument`` is its name in addresses, if it differs."""
    found: str | None = Field(
        default=None,
        alias=argument,
        max_length=MAX_FILTER_CHARS,
        description=f"{what}; (none) selects calls without one.",
    )
    return found


class _OverviewQuery(_SpanQuery):
    by: Annotated[
        Name | None,
        Field(description="The field to group by; model by default."),
    ] = None
    endpoint: str | None = _only("A slug")
    model: str | None = _only("A model")
    client: str | None = _only("A client, without its version")
    credential: str | None = _only("The fingerprint of a credential")
    billing: str | None = _only("A kind of billing")
    session: str | None = _only("The id of a session")
    agent: str | None = _only("The id of an agent")
    user: str | None = _only("A user, as named by clients", "tag.user")
    project: str | None = _only("A project, as named by clients", "tag.project")
    tag: str | None = _only("A tag without a key; one with a key is `tag.KEY=VALUE`")


class _PeriodQuery(RequestModel):
    period: Annotated[str, Field(description=_SPAN)] = DEFAULT_SPAN
    endpoint: str | None = _only("A slug")
    credential: str | None = _only("The fingerprint of a credential")


class _ModelsQuery(_PeriodQuery):
    model: str | None = _only("A model")
    client: str | None = _only("A client, without its version")
    billing: str | None = _only("A kind of billing")
    session: Annotated[
        str | None,
        Field(
            description="The id of a session, whose calls are all compared; excludes other filters."
        ),
    ] = None


class _SearchQuery(RequestModel):
    q: Annotated[
        str,
        Field(
            description="Words that must all occur in one text, adjacent if in double quotes. The id of"
            " a call, request or session is answered with its page as `location`.",
            max_length=MAX_CHARS,
        ),
    ] = ""
    since: Annotated[
        str | None, Field(description="A day or a time; earlier calls are left out.")
    ] = None
    until: Annotated[str | None, Field(description="A day, which is included, or a time.")] = None
    endpoint: Annotated[str | None, Field(description="The slug of a proxy endpoint.")] = None
    model: Annotated[str | None, Field(description="A model; * and ? are wildcards.")] = None
    session: Annotated[str | None, Field(description="The id of a session.")] = None
    role: Annotated[Role | None, Field(description="The author of the text.")] = None
    cursor: Annotated[str | None, Field(description="nextCursor of the page before.")] = None
    limit: Limit = 20


_NO_SESSION = {404: "There is no such session of your organisation."}

PAGES = (
    JsonPage(
        path="/overview.json",
        name="getOverview",
        summary="The cost of a period by step and group, with percentiles and a forecast.",
        query=_OverviewQuery,
        response=Overview,
    ),
    JsonPage(
        path="/sessions.json",
        name="listSessions",
        summary="The sessions of your organisation, the one that ended last first.",
        query=_SessionsQuery,
        response=SessionList,
    ),
    JsonPage(
        path="/sessions/{session_id}.json",
        name="getSession",
        summary="A session with its agents, its last turns and the calls that broke the cache.",
        query=NoFields,
        response=OpenedSession,
        errors=_NO_SESSION,
    ),
    JsonPage(
        path="/sessions/{session_id}/savings.json",
        name="getSessionSavings",
        summary="The possible savings in a session.",
        query=NoFields,
        response=SessionSavings,
        errors=_NO_SESSION,
    ),
    JsonPage(
        path="/savings.json",
        name="getSavings",
        summary="The possible savings in a period.",
        query=_SpanQuery,
        response=Savings,
    ),
    JsonPage(
        path="/savings/models.json",
        name="getSavingsModels",
        summary="The costs of a period or a session with other models.",
        query=_ModelsQuery,
        response=SavingsModels,
    ),
    JsonPage(
        path="/tools.json",
        name="listTools",
        summary="The uses and costs of tools in a period.",
        query=_PeriodQuery,
        response=Tools,
    ),
    JsonPage(
        path="/limits.json",
        name="listLimits",
        summary="The unused part of each window of a subscription.",
        query=NoFields,
        response=Limits,
    ),
    JsonPage(
        path="/search.json",
        name="searchTexts",
        summary="Texts of calls that have the words, a page at a time, with the places of these.",
        query=_SearchQuery,
        response=SearchResults,
    ),
)


def respond(document: ResponseModel) -> Response:
    """Return a document as a JSON response that no cache may store."""
    return JSONResponse(document.model_dump(mode="json", by_alias=True), headers=PRIVATE)
