"""``/``: the home page, with costs of today and of a period, sessions, failures, and how to connect."""

import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import notices, rendering
from dashboard.addresses import CALLS, query_address
from dashboard.call_filters import PERIOD
from dashboard.call_route import CallRoute
from dashboard.home.alerts import MAX_SHOWN
from dashboard.home.choice import KIND, MEASURES, Choice, parse_choice
from dashboard.home.columns import make_columns
from dashboard.home.lists import failed_address, list_failures, list_sessions
from dashboard.home.names import GROUP_TITLES, name_filter, name_group
from dashboard.home.reading import Costs, Home, read_home
from dashboard.home.sql import write_sql
from dashboard.home.strip import make_budgets, make_figures, make_windows
from dashboard.home.tables import make_table
from dashboard.live.in_flight import Flights
from dashboard.moments import find_zone
from dashboard.notices import Notice
from dashboard.overview.filters import NAMES, argument_of
from dashboard.overview.periods import DEFAULT_SPAN, list_segments
from dashboard.site import Site
from metering.credential_names import spread_names
from runtime import clock, extensions
from runtime.clock import format_ms
from runtime.extension_values import CallNotice
from runtime.heartbeat import Heartbeat
from store.control import credential_names
from store.control.alerts import Alert, list_active
from store.control.budget_management import BudgetStatus
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint
from store.control.invitations import Invitation
from store.control.management import Management
from store.control.people import Member
from store.control.sessions import Visitor
from store.pagination import Page
from store.traces.paths import trace_path

NOTICE_SPAN = timedelta(days=7)  # of calls that extensions warn of
ENDPOINTS = 5  # the others are in the settings
_TODAY = "today"  # the period
# The navigation has a link of the name "Calls" too.
_AS_MEASURE = Markup('{}<span class="vh"> as the measure</span>')
_BUSY = "Calls are still proxied and will be stored. Reload this page in a moment."
_UNREADABLE = "Calls are still proxied and wait to be stored. Run `taximeter doctor` on the server for details."
_BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The rows of ``control.db`` that the page shows. ``used_up`` are the budgets that refuse calls now;
    ``owners`` are email addresses; ``names`` maps fingerprints of credentials to names, ``agents`` ids
    of agents."""

    endpoints: Page[ProxyEndpoint]
    budgets: Sequence[BudgetStatus]
    used_up: Sequence[BudgetStatus]
    owners: Sequence[str]
    alerts: Sequence[Alert]
    invitations: list[Invitation]
    names: Mapping[str, str]
    agents: Mapping[str, str]


class HomePages:
    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        return [CallRoute("/", self.home_page)]

    async def home_page(self, request: Request) -> Response:
        visitor, found = await self._site.visitors.require_with(request, self._read)
        now = clock.now()
        choice = parse_choice(request.query_params, now)
        notice = notices.find(request)
        flights = await self._site.spool.read(visitor.organization_id)
        return await run_in_threadpool(self._render, visitor, found, choice, flights, notice, now)

    def _read(self, control: ControlDatabase, visitor: Visitor) -> _Found:
        management = Management.make(control, self._site.settings)
        with control.reading() as db:
            active = list_active(db, visitor.organization_id, clock.now(), MAX_SHOWN)
            names = credential_names.read_names(db, visitor.organization_id)
            agents = credential_names.read_names(db, visitor.organization_id, "agent")
        budgets = list(management.budgets.list_all(visitor))
        return _Found(
            endpoints=management.list_endpoints(visitor, limit=ENDPOINTS),
            budgets=budgets,
            used_up=[each for each in budgets if each.refuses],
            alerts=active,
            owners=_list_owners(management.list_members(visitor)),
            invitations=list(management.list_invitations_for(visitor.email)),
            names=names,
            agents=agents,
        )

    def _list_notices(self, visitor: Visitor, now: datetime) -> Sequence[CallNotice]:
        """Return the warnings of extensions about calls of the last ``NOTICE_SPAN``. Raises sqlite3.Error."""
        since = format_ms(now - NOTICE_SPAN)
        found: Sequence[CallNotice] = extensions.call().home_notice(
            data_dir=self._site.settings.data_dir, caller=visitor, since=since
        )
        return found

    def _render(
        self,
        visitor: Visitor,
        found: _Found,
        choice: Choice,
        flights: Flights,
        notice: Notice | None,
        now: datetime,
    ) -> Response:
        path = trace_path(self._site.settings.data_dir, visitor.organization_id)
        zone = find_zone(visitor.time_zone)
        home, trouble = None, None
        if path.exists():
            try:
                with self._site.connections.lend(path) as db:
                    told = self._list_notices(visitor, now)
                    home = read_home(db, choice, self._site.prices(), now, found.alerts, zone, told)
            except sqlite3.Error as error:
                trouble = _explain(path, error)
        return rendering.render(
            "home.html",
            visitor=visitor,
            notice=notice,
            settings=self._site.settings,
            found=found,
            home=home,
            trouble=trouble,
            recorder=Heartbeat.read(self._site.settings.data_dir),
            **({} if home is None else _describe(home, choice, found, flights, now, zone)),
        )


def _describe(
    home: Home, choice: Choice, found: _Found, flights: Flights, now: datetime, zone: tzinfo
) -> dict[str, Any]:
    """Return the template variables of a home page with recorded calls."""
    names = spread_names(found.names, home.accounts)
    costs = home.costs
    if choice.group == "credential":
        costs = replace(costs, titles=names)
    elif choice.group == "agent":
        costs = replace(costs, titles=found.agents)
    return {
        "choice": choice,
        "day": now.date().isoformat(),
        "figures": make_figures(
            home.strip,
            now,
            flights.count,
            f"{CALLS}?{PERIOD}={_TODAY}",
            failed_address(_TODAY),
            zone,
        ),
        "windows": make_windows(home, names, now.astimezone(zone)),
        "budgets": make_budgets(found.budgets, now),
        "sessions": list_sessions(home.sessions, names, flights),
        "failures": list_failures(home.failures),
        "failed_address": failed_address(DEFAULT_SPAN),
        **_describe_costs(costs, names),
    }


def _describe_costs(costs: Costs, names: Mapping[str, str]) -> dict[str, Any]:
    choice = costs.choice
    sql = write_sql(choice)
    return {
        "title": MEASURES[choice.measure].title,
        "columns": make_columns(costs),
        "table": make_table(costs),
        "others": [
            (
                f"{name_group('model', each.model)} as {name_group('model', each.other)}",
                sum(totals.cost_cents for totals in costs.now.values()) - each.saved_cents,
            )
            for each in costs.others
        ],
        "compared_cents": sum(totals.cost_cents for totals in costs.now.values()),
        "models_address": _models_address(costs),
        "periods": list_segments(lambda span: choice.address(period=span), choice.period.span),
        "measures": [
            (
                choice.address(measure=measure),
                _AS_MEASURE.format(words.link),
                measure == choice.measure,
            )
            for measure, words in MEASURES.items()
        ],
        "groups": [
            (choice.address(by=name), GROUP_TITLES[name], name == choice.by)
            for name in GROUP_TITLES
        ],
        "kinds": (choice.address(by=KIND, measure="tokens"), choice.is_of_kinds),
        "chips": [
            (
                *name_filter(name, value, names),
                choice.address(filters=choice.filters.without(name)),
            )
            for name, value in choice.filters.values.items()
        ],
        "filter_names": [(argument_of(name), name, GROUP_TITLES[name]) for name in NAMES],
        "period_name": choice.period.title,
        "orders": [
            (choice.address(order="newest"), "Newest", choice.order == "newest"),
            (choice.address(order="cost"), "Most expensive of 7 days", choice.order == "cost"),
        ],
        "sql_address": query_address(sql),
        "csv_address": query_address(sql, ".csv"),
    }


def _models_address(costs: Costs) -> str:
    arguments = [("period", costs.compared.span), *costs.choice.filters.as_arguments()]
    return f"/savings/models?{urlencode(arguments, errors='replace')}"


def _list_owners(members: Iterable[Member]) -> Sequence[str]:
    return [each.email for each in members if each.role == "owner" and each.email]


def _explain(path: Path, error: sqlite3.Error) -> str:
    """Log an error, and return what to do about it, without paths and SQL."""
    logger.error("The traces of %s cannot be read: %s", path.parent.name, error)
    is_busy = getattr(error, "sqlite_errorcode", None) in _BUSY_CODES
    return _BUSY if is_busy else _UNREADABLE
