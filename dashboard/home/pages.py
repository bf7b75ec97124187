"""``/``: today's usage, the newest calls, the server status, and how to connect a client."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import notices, rendering
from dashboard.addresses import session_address
from dashboard.call_route import CallRoute
from dashboard.home.chart import make_bars
from dashboard.home.overview import read_overview
from dashboard.kept_connections import KeptConnections
from dashboard.notices import Notice
from dashboard.visitors import Visitors
from runtime import clock
from runtime.heartbeat import Heartbeat
from runtime.settings import Settings
from store.control.budget_management import BudgetStatus
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint
from store.control.invitations import Invitation
from store.control.management import Management
from store.control.people import Member
from store.control.sessions import Visitor
from store.pagination import Page
from store.traces.paths import trace_path

ENDPOINTS, BUDGETS = 5, 3  # the others are in the settings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The rows of ``control.db`` that the page shows. ``used_up`` are the budgets that refuse calls now;
    ``owners`` are addresses."""

    endpoints: Page[ProxyEndpoint]
    budgets: Sequence[BudgetStatus]
    used_up: Sequence[BudgetStatus]
    owners: Sequence[str]
    invitations: list[Invitation]


class HomePages:
    def __init__(
        self, settings: Settings, visitors: Visitors, connections: KeptConnections
    ) -> None:
        self._settings = settings
        self._visitors = visitors
        self._connections = connections

    def routes(self) -> list[BaseRoute]:
        return [CallRoute("/", self.home_page)]

    async def home_page(self, request: Request) -> Response:
        visitor, found = await self._visitors.require_with(request, self._read)
        return await run_in_threadpool(self._render, visitor, found, notices.find(request))

    def _read(self, control: ControlDatabase, visitor: Visitor) -> _Found:
        management = Management.make(control, self._settings)
        budgets = management.budgets.list_by_subject(visitor).values()
        return _Found(
            endpoints=management.list_endpoints(visitor, limit=ENDPOINTS),
            budgets=_find_most_used(budgets),
            used_up=[each for each in budgets if each.refuses],
            owners=_list_owners(management.list_members(visitor)),
            invitations=list(management.list_invitations_for(visitor.email)),
        )

    def _render(self, visitor: Visitor, found: _Found, notice: Notice | None) -> Response:
        path = trace_path(self._settings.data_dir, visitor.organization_id)
        overview = read_overview(self._connections, path, clock.now())
        return rendering.render(
            "home.html",
            visitor=visitor,
            notice=notice,
            settings=self._settings,
            endpoints=found.endpoints,
            budgets=found.budgets,
            used_up=found.used_up,
            owners=found.owners,
            invitations=found.invitations,
            overview=overview,
            session_address=session_address,
            bars=make_bars(overview.days),
            recorder=Heartbeat.read(self._settings.data_dir),
        )


def _find_most_used(statuses: Iterable[BudgetStatus]) -> Sequence[BudgetStatus]:
    return sorted(statuses, key=lambda status: status.percent, reverse=True)[:BUDGETS]


def _list_owners(members: Iterable[Member]) -> Sequence[str]:
    return [each.email for each in members if each.role == "owner" and each.email]
