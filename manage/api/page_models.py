"""The responses of the pages that are JSON, for the OpenAPI document. The dashboard makes them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, create_model

from manage.api.models import Instant, ListResponse, ResponseModel
from manage.api.search_operations import SearchHit
from metering import token_counts

_Cents = Annotated[float, Field(description="US cents.")]


# -- sessions --------------------------------------------------------------------------------------


class _SessionSums(ResponseModel):
    session_id: str
    title: str | None
    started_at: Instant
    ended_at: Instant
    calls: int
    errors: int
    cost_cents: _Cents


class ListedSession(_SessionSums):
    cache_breaks: int


class SessionList(ListResponse):
    items: Sequence[ListedSession]


class BrokenCache(ResponseModel):
    entry_id: str
    cause: Annotated[
        str, Field(description="What broke it, as the query on cache breaks names it.")
    ]
    detail: str | None
    tokens: Annotated[int, Field(description="Tokens that were written or sent again.")]
    extra_cost_cents: _Cents | None
    estimated: bool


class SessionAgent(ResponseModel):
    agent_id: Annotated[str | None, Field(description="null for the main agent.")]
    parent_agent_id: str | None
    calls: int
    cost_cents: _Cents


class SessionTurn(ResponseModel):
    id: int
    entry_id: str
    agent_id: str | None
    created_at: Instant
    model: Annotated[str | None, Field(description="null where the response named none.")]
    cost_cents: _Cents | None
    outcome: str


class OpenedSession(_SessionSums):
    cache_breaks: Sequence[BrokenCache]
    agents: Sequence[SessionAgent]
    turns: Annotated[Sequence[SessionTurn], Field(description="Oldest first, the last 2,000.")]


# -- the overview ----------------------------------------------------------------------------------


class Percentile(ResponseModel):
    p50: float | None
    p95: float | None
    calls: Annotated[int, Field(description="How many calls have the measure.")]


class OverviewForecast(ResponseModel):
    so_far: _Cents
    expected: _Cents | None


class OverviewMonth(ResponseModel):
    cost_cents: OverviewForecast
    spend_cents: OverviewForecast
    method: str


class _Name(ResponseModel):
    name: Annotated[str | None, Field(description="null where the calls name none.")]
    request_model: Annotated[
        str | None,
        Field(description="By model: what calls asked for whose response named none."),
    ]
    is_rest: Annotated[bool, Field(description="Whether it is all groups that are not listed.")]


class _Interval(ResponseModel):
    start: Instant
    end: Instant


class OverviewStepGroup(_Name):
    calls: int
    cost_cents: _Cents


class _Money(ResponseModel):
    calls: int
    errors: int
    cost_cents: _Cents
    spend_cents: _Cents
    value_cents: _Cents
    estimated_cents: _Cents
    unpriced: int
    maybe_billed: int
    cache_share: float | None


_TOKEN_FIELDS: dict[str, Any] = dict.fromkeys(token_counts.NAMES, int)


class _Sums(create_model("_MoneyAndTokens", __base__=_Money, **_TOKEN_FIELDS)):  # type: ignore[misc]  # made from the classes of tokens
    """The sums of calls."""


class OverviewTotals(_Sums):
    rejected: Annotated[
        int | None, Field(description="Requests that our own limits refused; null where unknown.")
    ]


class OverviewBefore(_Interval, _Sums):
    """The period before."""


class OverviewGroup(_Name, _Sums):
    percentiles: Mapping[str, Percentile] | None


class OverviewStep(_Interval, _Sums):
    groups: Sequence[OverviewStepGroup]


class Overview(ResponseModel):
    span: str
    first: Annotated[str, Field(alias="from", json_schema_extra={"format": "date"})]
    last: Annotated[str, Field(alias="to", json_schema_extra={"format": "date"})]
    time_zone: str
    step: Annotated[str, Field(description="hour, day or week.")]
    by: str
    filters: Mapping[str, str | None]
    complete_from: Annotated[
        Instant, Field(description="Calls before it were not read, where no sums are kept.")
    ]
    totals: OverviewTotals
    before: OverviewBefore | None
    percentiles: Mapping[str, Percentile]
    percentile_resolution: Annotated[float, Field(description="The relative error.")]
    headroom: Annotated[
        Mapping[str, float] | None,
        Field(description="The lowest share of each limit of upstream that remained."),
    ]
    month: OverviewMonth | None
    groups: Sequence[OverviewGroup]
    steps: Sequence[OverviewStep]


# -- savings ---------------------------------------------------------------------------------------


class FindingCall(ResponseModel):
    id: int
    cost_cents: _Cents | None


class LargestFinding(ResponseModel):
    session_id: str
    calls: Sequence[FindingCall]


class Finding(ResponseModel):
    finding: str
    title: str
    subject: str
    is_saving: bool
    measured: bool
    calls: int
    tokens: int
    cost_cents: _Cents
    unpriced_tokens: int
    remedy: str
    formula: str
    largest: LargestFinding


class SmallerFindings(ResponseModel):
    count: int
    cost_cents: _Cents


class _Findings(ListResponse):
    items: Sequence[Finding]
    total_cents: _Cents
    unpriced_tokens: int
    smaller: SmallerFindings


class SavingsSession(ResponseModel):
    session_id: str
    cost_cents: _Cents


class Savings(_Findings):
    span: str
    first_day: Annotated[str, Field(json_schema_extra={"format": "date"})]
    last_day: Annotated[str, Field(json_schema_extra={"format": "date"})]
    sessions_due: Annotated[int, Field(description="Sessions that are still to be looked at.")]
    sessions: Sequence[SavingsSession]


class SessionSavings(_Findings):
    session_id: str
    method: Annotated[int | None, Field(description="The version of the rules.")]
    computed_at: Instant | None
    calls: int


# -- search ----------------------------------------------------------------------------------------


class SearchResults(ListResponse):
    items: Sequence[SearchHit]
    location: Annotated[
        str | None, Field(description="The page of the call or session that the text names.")
    ]
    indexed: Annotated[bool, Field(description="Whether search is turned on.")]
    searched_back_to: Instant | None
    calls_not_searched: int
