"""``/tools``: the uses and costs of tools, as a page and as JSON.

Both only read daily sums, so their time does not depend on the number of calls.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import json_pages, rendering
from dashboard.call_filters import MAX_CHARS
from dashboard.call_route import CallRoute
from dashboard.overview.periods import DEFAULT_SPAN, Period, list_segments, parse_span
from dashboard.rendering import PRIVATE
from dashboard.savings.tab_figures import TabFigures, read_tab_figures
from dashboard.tools.documents import Tools
from dashboard.tools.figures import ToolFigures, make_figures
from dashboard.trace_work import TracePages
from dashboard.what_was_done import find_root, shorten_path
from metering.credential_names import name_credential
from runtime import clock
from runtime.errors import InvalidInputError
from store.control.people import Caller
from store.traces.savings.savings_reader import SavingsReader
from store.traces.savings.tools_reader import (
    SummedTarget,
    SummedTool,
    ToolFilter,
    ToolsReader,
)

PATH = "/tools"
SHOWN_TARGETS, LISTED_TARGETS = 15, 200
_FILTERS = {"endpoint": "slug", "credential": "credential"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The period and the filters of an address."""

    period: Period
    filters: dict[str, str]

    @property
    def tool_filter(self) -> ToolFilter:
        """Return the filter for the sums to be read."""
        return ToolFilter(
            first=self.period.first,
            last=self.period.last,
            slug=self.filters.get("endpoint"),
            credential=self.filters.get("credential"),
        )

    def address(self, path: str = PATH, **changes: str) -> str:
        """Return the address with changed arguments. An empty value removes a filter."""
        given = {"period": self.period.span, **self.filters, **changes}
        return f"{path}?{urlencode({name: value for name, value in given.items() if value})}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The sums that were read, and for each filter its values with their numbers of uses. ``due`` is the
    number of sessions that have not been analysed yet; ``tabs`` are the main figures of the neighbouring
    pages."""

    tools: Sequence[SummedTool] = ()
    targets: Sequence[SummedTarget] = ()
    paid_cents: float = 0.0
    due: int = 0
    values: dict[str, Sequence[tuple[str, int]]]
    tabs: TabFigures = field(default_factory=dict)


class ToolPages(TracePages):
    """The pages about the tools of the caller's organisation."""

    def routes(self) -> list[BaseRoute]:
        return [CallRoute(PATH, self.page), CallRoute(f"{PATH}.json", self.json)]

    async def page(self, request: Request) -> Response:
        caller, asked = await self._visitors.require_caller(request), _parse(request)
        names = await self._visitors.read_credential_names(caller)

        def respond(found: _Found) -> Response:
            figures = make_figures(found.tools, found.targets[:SHOWN_TARGETS], found.paid_cents)
            return _render(caller, asked, found, figures, names)

        return await self._respond(caller, asked, SHOWN_TARGETS, respond)

    async def json(self, request: Request) -> Response:
        caller, asked = await self._visitors.require_caller(request), _parse(request)

        def respond(found: _Found) -> Response:
            return json_pages.respond(Tools.make(asked.period, found.tools, found.targets))

        return await self._respond(caller, asked, LISTED_TARGETS, respond)

    async def _respond(
        self, caller: Caller, asked: _Asked, targets: int, respond: Callable[[_Found], Response]
    ) -> Response:
        """Return the response that ``respond`` makes of the sums, in a thread.

        Raises sqlite3.Error, and HTTPException if too many requests wait."""

        def run(connection: sqlite3.Connection | None) -> Response:
            if connection is None or not (reader := ToolsReader(connection)).is_ready:
                return respond(_Found(values={}))
            given = asked.tool_filter
            return respond(
                _Found(
                    tools=reader.list_tools(given),
                    targets=reader.list_targets(given, targets),
                    paid_cents=reader.sum_paid(given),
                    due=SavingsReader(connection).count_due(),
                    values={
                        name: reader.list_values(given, column) for name, column in _FILTERS.items()
                    },
                    tabs=read_tab_figures(connection, given.first, given.last),
                )
            )

        return await self._work.run(caller, run)


def _render(
    caller: Caller,
    asked: _Asked,
    found: _Found,
    figures: ToolFigures,
    names: Mapping[str, str],
) -> Response:
    """Return the page about tools. ``names`` maps fingerprints of credentials to names."""
    days = {"day__gte": asked.period.first.isoformat(), "day__lte": asked.period.last.isoformat()}
    root = find_root(each.target for each in figures.targets)
    return rendering.render(
        "tools.html",
        visitor=caller,
        headers=PRIVATE,
        asked=asked,
        figures=figures,
        due=found.due,
        values={name: values for name, values in found.values.items() if len(values) > 1},
        periods=list_segments(lambda span: asked.address(period=span), asked.period.span),
        table=lambda name, kind="": f"/traces/{name}{kind}?{urlencode(days)}",
        uses_of=_uses_address,
        shorten=lambda target: shorten_path(target, root),
        name_value=lambda name, value: (
            name_credential(value, names) if name == "credential" else value
        ),
        tab_figures={**found.tabs, "tools": figures.sums.cents},
    )


def _uses_address(server: str, tool: str = "", target: str = "") -> str:
    """Return the address of the uses of a tool as rows of a table."""
    arguments = {"server": server} if server else {"server__isnull": "1"}
    for name, value in (("tool", tool), ("target", target)):
        if value:
            arguments[name] = value
    return f"/traces/tool_uses?{urlencode(arguments, errors='replace')}"


def _parse(request: Request) -> _Asked:
    """Parse the period and filters in an address. Raises InvalidInputError."""
    given = request.query_params
    filters = {name: given[name] for name in _FILTERS if given.get(name)}
    for name, value in filters.items():
        if len(value) > MAX_CHARS:
            raise InvalidInputError(f"{name} must have at most {MAX_CHARS} characters", name)
    period = parse_span(given.get("period") or DEFAULT_SPAN, clock.now(), "period")
    return _Asked(period=period, filters=filters)
