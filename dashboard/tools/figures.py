"""The figures of the page about tools: tools by server, the most expensive first, and bars of their
costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dashboard.drawing import lay_out
from store.traces.savings.tool_sums import ToolSums
from store.traces.savings.tools_reader import SummedTarget, SummedTool

MAX_LINES = 8  # of a server; the others are one line
type Bar = Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """A line of the table: one tool (``name``), or the sum of ``count`` other tools of its server."""

    sums: ToolSums
    name: str = ""
    count: int = 1
    is_never_called: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTools:
    """The tools of an MCP server, or if ``server`` is "" those of the clients themselves."""

    server: str
    count: int
    sums: ToolSums
    lines: Sequence[ToolLine]

    @property
    def never_called(self) -> ToolLine | None:
        """Return the line of the tools that were never called, None if there are none."""
        return next((line for line in self.lines if line.is_never_called), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFigures:
    """All figures of the page. ``paid_cents`` is the cost of all calls of the period."""

    servers: Sequence[ServerTools] = ()
    targets: Sequence[SummedTarget] = ()
    sums: ToolSums = field(default_factory=ToolSums)
    paid_cents: float = 0.0

    @property
    def most_cents(self) -> float:
        """Return the cost of the most expensive line in cents, which has the longest bar."""
        return max((line.sums.cents for each in self.servers for line in each.lines), default=0.0)

    @property
    def never_called(self) -> ServerTools | None:
        """Return the server whose never called tools cost most, None if all tools were called."""
        found = [each for each in self.servers if each.never_called is not None]
        return max(found, key=_rate_never_called, default=None)

    def draw(self, line: ToolLine) -> Bar:
        """Return the bar of a line: for each part its CSS class, left edge and width in per cent."""
        sums = line.sums
        parts = {
            "output": sums.definition_cents,
            "write": sums.written_cents,
            "read": sums.carried_cents,
        }
        places = lay_out(parts.values(), self.most_cents or 1.0)
        return [
            (kind, *place)
            for (kind, cents), place in zip(parts.items(), places, strict=True)
            if cents > 0
        ]


def make_figures(
    tools: Sequence[SummedTool], targets: Sequence[SummedTarget], paid_cents: float
) -> ToolFigures:
    """Return the figures of a period. ``paid_cents`` is the cost of all its calls."""
    by_server: dict[str, list[SummedTool]] = {}
    for each in tools:
        by_server.setdefault(each.server, []).append(each)
    servers = [_make_server(server, found) for server, found in by_server.items()]
    servers.sort(key=lambda each: (-each.sums.cents, each.server))
    return ToolFigures(
        servers=servers,
        targets=targets,
        sums=add_up([each.sums for each in tools]),
        paid_cents=paid_cents,
    )


def add_up(parts: Sequence[ToolSums]) -> ToolSums:
    """Return the total of several sums."""
    total = ToolSums()
    for each in parts:
        total.add(each)
    return total


def _make_server(server: str, tools: Sequence[SummedTool]) -> ServerTools:
    called = [ToolLine(name=each.tool, sums=each.sums) for each in tools if each.sums.uses]
    called.sort(key=lambda line: (-line.sums.cents, -line.sums.uses, line.name))
    lines, others = called[:MAX_LINES], called[MAX_LINES:]
    if others:
        lines.append(ToolLine(count=len(others), sums=add_up([line.sums for line in others])))
    unused = [each.sums for each in tools if not each.sums.uses]
    if unused:
        lines.append(ToolLine(count=len(unused), sums=add_up(unused), is_never_called=True))
    sums = add_up([each.sums for each in tools])
    return ServerTools(server=server, count=len(tools), sums=sums, lines=lines)


def _rate_never_called(server: ServerTools) -> float:
    return 0.0 if server.never_called is None else server.never_called.sums.cents
