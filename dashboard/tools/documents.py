"""``/tools.json``: the models of its response. Days are UTC."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from dashboard.overview.periods import Period
from store.json_models import ResponseModel, SumOfCents
from store.traces.savings.tools_reader import SummedTarget, SummedTool


class _Results(ResponseModel):
    uses: int
    failed: int
    result_tokens: Annotated[int, Field(description="Tokens of the results, estimated by size.")]
    written_cents: Annotated[
        SumOfCents, Field(description="The cost of results in the calls that had them first.")
    ]
    carried_cents: Annotated[
        SumOfCents, Field(description="The cost of results in later calls of their conversations.")
    ]


class Tool(_Results):
    server: Annotated[str | None, Field(description="The MCP server; null for other tools.")]
    tool: Annotated[str | None, Field(description="null if the name is unknown.")]
    median_result_tokens: Annotated[
        int | None,
        Field(description="The median, within 4.5 %; null if no sizes are known."),
    ]
    definition_cents: Annotated[
        SumOfCents, Field(description="The cost of its definition in calls.")
    ]


class ToolTarget(_Results):
    server: str | None
    tool: str | None
    target: Annotated[str, Field(description="File, command, pattern, address, …")]
    sessions: Annotated[int, Field(description="A session counts once on each of its days.")]


class Tools(ResponseModel):
    """The tools of a period, and the targets whose results cost most."""

    period: str
    first_day: str
    last_day: str
    tools: Sequence[Tool]
    targets: Sequence[ToolTarget]

    @classmethod
    def make(
        cls, period: Period, tools: Sequence[SummedTool], targets: Sequence[SummedTarget]
    ) -> Self:
        return cls(
            period=period.span,
            first_day=period.first.isoformat(),
            last_day=period.last.isoformat(),
            tools=[_make_tool(each) for each in sorted(tools, key=_place)],
            targets=[_make_target(each) for each in targets],
        )


def _make_tool(each: SummedTool) -> Tool:
    return Tool.of(each.sums, server=each.server or None, tool=each.tool or None)


def _make_target(each: SummedTarget) -> ToolTarget:
    return ToolTarget.of(
        each.sums,
        server=each.server or None,
        tool=each.tool or None,
        target=each.target,
        sessions=each.sessions,
    )


def _place(each: SummedTool) -> tuple[float, str, str]:
    """Return the sort key of a tool: the most expensive ones come first."""
    return -each.sums.cents, each.server, each.tool
