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
    result_tokens: Annotated[int, Field(description="Of the results, estimated by their size.")]
    written_cents: Annotated[
        SumOfCents, Field(description="What calls paid for results that had them first.")
    ]
    carried_cents: Annotated[
        SumOfCents, Field(description="What later calls of their conversations paid for them.")
    ]


class Tool(_Results):
    server: Annotated[str | None, Field(description="null for the tools of no MCP server.")]
    tool: Annotated[str | None, Field(description="null where the name is not known.")]
    median_result_tokens: Annotated[
        int | None,
        Field(description="Of its results, within 4.5 %. null where no sizes are known."),
    ]
    definition_cents: Annotated[
        SumOfCents, Field(description="What calls paid for its definition.")
    ]


class ToolTarget(_Results):
    server: str | None
    tool: str | None
    target: Annotated[str, Field(description="File, command, pattern, address, …")]
    sessions: Annotated[int, Field(description="A session counts on each of its days.")]


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
