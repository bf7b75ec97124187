"""Sessions as JSON, in responses of the API and the pages."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from store.json_models import Cents, Instant, ListResponse, ResponseModel, SumOfCents
from store.traces.sessions.deeds import Deeds
from store.traces.sessions.opened import Opened
from store.traces.sessions.prompts import cut_prompts
from store.traces.sessions.session_list import Listed
from store.traces.sessions.session_reader import Turn
from store.traces.sessions.steps import make_steps, sum_cents


class _SessionSums(ResponseModel):
    session_id: str
    title: str | None
    started_at: Instant
    ended_at: Instant
    calls: int
    errors: int
    failed_tools: Annotated[int, Field(description="Uses of tools that failed.")] = 0
    cost_cents: SumOfCents


class ListedSession(_SessionSums):
    cache_breaks: int


class SessionList(ListResponse):
    items: Sequence[ListedSession]

    @classmethod
    def make(cls, listed: Listed) -> Self:
        return cls.of(listed, items=[ListedSession.of(each) for each in listed.sessions])


class BrokenCache(ResponseModel):
    entry_id: str
    cause: Annotated[str, Field(description="Cause, by the names of the query on cache breaks.")]
    detail: str | None
    tokens: Annotated[int, Field(description="Tokens that were written or sent again.")]
    extra_cost_cents: SumOfCents | None
    estimated: bool


class SessionAgent(ResponseModel):
    agent_id: Annotated[str | None, Field(description="null for the main agent.")]
    parent_agent_id: str | None
    calls: int
    cost_cents: SumOfCents


class UsedTool(ResponseModel):
    tool: str | None
    server: Annotated[str | None, Field(description="MCP server of the tool.")]
    target: Annotated[str | None, Field(description="File, command, pattern, address, …")]
    problem: Annotated[
        str | None,
        Field(description="Problem of the use; null if it succeeded or has no result yet."),
    ]


class SessionPrompt(ResponseModel):
    title: str | None
    first_turn: Annotated[int, Field(description="Number of its first turn, from 1 on.")]
    turns: int
    cost_cents: SumOfCents


class SessionTurn(ResponseModel):
    id: int
    entry_id: str
    agent_id: str | None
    created_at: Instant
    model: Annotated[str | None, Field(description="null if the response named none.")]
    cost_cents: Cents | None
    outcome: str
    tools: Annotated[
        Sequence[UsedTool], Field(description="Uses of tools in its response, in order.")
    ] = ()
    said_text: Annotated[str | None, Field(description="First words of its response.")] = None
    changed_by_upstream: Annotated[
        str | None,
        Field(
            description="What upstream changed in the request, separated by commas: cleared, summed_up,"
            " dropped_thinking. null where it says nothing of the kind."
        ),
    ] = None


class OpenedSession(_SessionSums):
    cache_breaks: Sequence[BrokenCache]
    agents: Sequence[SessionAgent]
    turns: Annotated[Sequence[SessionTurn], Field(description="Oldest first, the last 2,000.")]
    prompts: Annotated[
        Sequence[SessionPrompt],
        Field(description="Prompts of a person in order, with the turns that served them."),
    ] = ()

    @classmethod
    def make(cls, opened: Opened) -> Self:
        first = opened.session.calls - len(opened.turns) + 1
        return cls.of(
            opened.session,
            cache_breaks=[BrokenCache.of(e.found, entry_id=e.entry_id) for e in opened.breaks],
            agents=[SessionAgent.of(each) for each in opened.agents],
            turns=[_make_turn(each, opened.deeds) for each in opened.turns],
            prompts=_list_prompts(opened.turns, opened.deeds, max(first, 1)),
        )


def _make_turn(turn: Turn, deeds: Deeds) -> SessionTurn:
    tools = [UsedTool.of(each) for each in deeds.uses.get(turn.id, ())]
    return SessionTurn.of(turn, tools=tools, said_text=deeds.said.get(turn.id))


def _list_prompts(turns: Sequence[Turn], deeds: Deeds, first: int) -> list[SessionPrompt]:
    """Return the prompts of ``turns``. ``first`` is the place of the first turn among all of the session."""
    places = {turn.id: place for place, turn in enumerate(turns, first)}
    return [
        SessionPrompt(
            title=prompt.title,
            first_turn=places[prompt.steps[0].id],
            turns=len(prompt.steps),
            cost_cents=sum_cents(prompt.steps),
        )
        for prompt in cut_prompts(make_steps(turns, deeds))
    ]
