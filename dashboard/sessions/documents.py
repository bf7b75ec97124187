"""``/sessions.json`` and ``/sessions/<id>.json``: what they respond."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from dashboard.sessions.opened import Opened
from store.json_models import Cents, Instant, ListResponse, ResponseModel, SumOfCents


class _SessionSums(ResponseModel):
    session_id: str
    title: str | None
    started_at: Instant
    ended_at: Instant
    calls: int
    errors: int
    cost_cents: SumOfCents


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
    extra_cost_cents: SumOfCents | None
    estimated: bool


class SessionAgent(ResponseModel):
    agent_id: Annotated[str | None, Field(description="null for the main agent.")]
    parent_agent_id: str | None
    calls: int
    cost_cents: SumOfCents


class SessionTurn(ResponseModel):
    id: int
    entry_id: str
    agent_id: str | None
    created_at: Instant
    model: Annotated[str | None, Field(description="null where the response named none.")]
    cost_cents: Cents | None
    outcome: str


class OpenedSession(_SessionSums):
    cache_breaks: Sequence[BrokenCache]
    agents: Sequence[SessionAgent]
    turns: Annotated[Sequence[SessionTurn], Field(description="Oldest first, the last 2,000.")]

    @classmethod
    def make(cls, opened: Opened) -> Self:
        return cls.of(
            opened.session,
            cache_breaks=[BrokenCache.of(e.found, entry_id=e.entry_id) for e in opened.breaks],
            agents=[SessionAgent.of(each) for each in opened.agents],
            turns=[SessionTurn.of(each) for each in opened.turns],
        )
