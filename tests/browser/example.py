"""An organisation with the calls of two weeks, for pictures and for tests of every page.

Its calls are in ``tests.browser.example_calls``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from extensions.reconcile.comparison import Figures, Reported, compare
from extensions.reconcile.recorded_usage import read_recorded_usage
from extensions.reconcile.result_file import Reconciliation, write_reconciliation
from metering.prices import PriceTable
from runtime.clock import format_seconds, now
from store.control import (
    api_keys,
    budgets,
    endpoints as proxy_endpoints,
    invitations,
    people,
)
from store.control.database import ControlDatabase
from store.traces.paths import trace_path
from tests.browser.example_calls import SESSION, make_calls
from tests.browser.planting import Planter
from tests.browser.site import Site
from tests.dashboard.every_page import list_added
from tests.proxy_endpoints import create_endpoint

OWNER = "rosa@nightcab.example"
MEMBERS = ("amir@nightcab.example", "dispatch@nightcab.example")
INVITED = "yuki@nightcab.example"
ORGANIZATION = "Night Cab"
ENDPOINTS = (
    ("Dispatch desk", "dispatch-desk"),
    ("Claude Code", "claude-code"),
    ("Nightly reports", "nightly-reports"),
)


@dataclass(frozen=True, slots=True)
class Example:
    email: str
    """The address of the user who is signed in."""
    ids: Mapping[str, int]
    """The row ids of calls by their names."""
    traces_path: Path
    endpoint_id: str
    key_id: str
    member_id: str

    def call(self, name: str) -> str:
        """Return the address of the page of a call."""
        return f"/calls/{self.ids[name]}"

    @property
    def unnamed(self) -> str:
        """Return the id of the session that no client named."""
        return f"unnamed-{self.ids['unnamed-1']}"

    def pages(self) -> dict[str, str]:
        """Return the address of each kind of page for a signed-in user, by name."""
        call, settings = self.call("lost-tool"), "/settings"
        row = f"/traces/usage/{self.ids['lost-tool']}"
        return {
            "home": "/",
            "home-tokens": "/?measure=tokens&by=kind",
            "home-times": "/?measure=time&by=endpoint",
            "home-sessions": "/?measure=session&period=30d",
            "calls": "/calls?period=30d",
            "calls-by-session": "/calls?period=30d&by=session",
            "calls-failed": "/calls?period=30d&failed=1",
            "calls-in-sql": "/traces/usage?_size=20",
            "calls-by-model": "/traces/usage?_sum_by=model&_facet=model&outcome__notin=complete",
            "call": call,
            "call-cost": f"{call}/cost",
            "call-send": f"{call}/raw",
            "call-details": f"{call}/details",
            "call-context": f"{row}/context",
            "sessions": "/sessions",
            "sessions-by-cost": "/sessions?order=cost",
            "session": f"/sessions/{SESSION}",
            "session-unnamed": f"/sessions/{self.unnamed}",
            "search": "/search?q=night",
            "savings": "/savings",
            "tools": "/tools",
            "savings-models": "/savings/models",
            "sessions-filtered": "/sessions?endpoint=dispatch-desk",
            "session-tools": f"/sessions/{SESSION}/tools",
            "session-calls": f"/sessions/{SESSION}/calls",
            "session-savings": f"/sessions/{SESSION}/savings",
            "session-context": f"/sessions/{SESSION}/context",
            "call-failed": self.call("overloaded"),
            "call-unpriced": self.call("unpriced"),
            "call-cut": self.call("cut"),
            "call-request": f"{row}/request/read",
            "call-response": f"{row}/response/read",
            "call-raw": f"{row}/response/raw",
            "replay": f"{row}/replay",
            "compare": f"/traces/usage/{self.ids['failing-tool']}/compare/{self.ids['lost-tool']}",
            "queries": "/traces",
            "query": "/traces/cost_by_day_and_model?_size=20",
            "breaks": "/traces/cache_breaks_by_day",
            "sql": "/traces?sql=select+model,+count(*)+as+calls+from+usage+group+by+model",
            "sql-mistake": "/traces?sql=select+nothing+from+nowhere",
            "columns": "/traces/usage_log",
            "cost-lines": "/traces/usage_cost?_size=20",
            "help-costs": "/help/costs",
            **{each.address.strip("/"): each.address for each in list_added()},
            "settings": f"{settings}/endpoints",
            "settings-budgets": f"{settings}/budgets",
            "settings-data": f"{settings}/data",
            "settings-people": f"{settings}/people",
            "settings-security": f"{settings}/security",
            "endpoint-new": f"{settings}/new-endpoint",
            "budget": f"{settings}/budgets/organization",
            "retention": f"{settings}/data/retention",
            "invite": f"{settings}/people/invite",
            "key-new": f"{settings}/people/new-key",
            "endpoint": f"{settings}/endpoints/{self.endpoint_id}",
            "endpoint-delete": f"{settings}/endpoints/{self.endpoint_id}/delete",
            "key-delete": f"{settings}/keys/{self.key_id}/delete",
            "member-remove": f"{settings}/members/{self.member_id}/remove",
            "nowhere": "/nowhere",
        }


def make_example(site: Site, folder: Path) -> Example:
    """Make the example on a service that does not have it yet. The spool of its calls is in ``folder``."""
    data_dir = site.service.data_dir
    with ControlDatabase(data_dir / "control.db") as control:
        with control.transaction() as db:
            organization = people.create_organization(db, ORGANIZATION)
            owner, *members = (people.create_user(db, each) for each in (OWNER, *MEMBERS))
            people.join(db, organization.id, owner, "owner")
            for member in members:
                people.join(db, organization.id, member, "member")
            keys = [
                api_keys.create(db, organization.id, owner, name)[0]
                for name in ("monthly bill", "Rosa's laptop")
            ]
            invitations.create(db, organization.id, INVITED, OWNER, now())
        endpoints = {
            slug: create_endpoint(control, organization.id, name, slug).id
            for name, slug in ENDPOINTS
        }
        with control.transaction() as db:
            desk = proxy_endpoints.get(db, organization.id, "dispatch-desk")
            budgets.put(db, organization.id, desk, period="day", limit_usd=0.01, action="warn")
            budgets.put(db, organization.id, None, period="month", limit_usd=50, action="warn")
    with Planter(data_dir, folder, organization.id, endpoints) as planter:
        planter.plant(make_calls(now()))
    _reconcile(data_dir, organization.id)
    return Example(
        email=OWNER,
        ids=planter.ids,
        traces_path=trace_path(data_dir, organization.id),
        endpoint_id=endpoints["dispatch-desk"],
        key_id=keys[0].id,
        member_id=members[0],
    )


def _reconcile(data_dir: Path, organization_id: str) -> None:
    """Write the result of ``taximeter reconcile`` where some calls were batches or bypassed the proxy."""
    today = now().date()
    yesterday = today - timedelta(days=1)  # midnight may be in the middle of the calls
    recorded = read_recorded_usage(
        trace_path(data_dir, organization_id), yesterday, today, PriceTable()
    )
    reported = []
    for each in recorded.items:
        seen = Reported(
            day=each.day,
            kind=each.kind,
            model=each.model,
            figures=each.figures,
            workspace_id="wrkspc_01NightCabDispatch",
            api_key_id="apikey_01DispatchDesk",
        )
        reported.append(seen)
        if each.model == "cab-research-preview":
            reported.append(replace(seen, figures=Figures(cost_cents=Decimal("6.25"))))
        if each.model == "claude-haiku-4-5" and each.figures.has_counts:
            reported.append(replace(seen, api_key_id=None, workspace_id=None))
        if each.model == "claude-sonnet-5" and each.figures.has_counts:
            reported.append(replace(seen, service_tier="batch", api_key_id="apikey_01Reports"))
    fare = Figures(cost_cents=Decimal("41.5"))
    reported.append(Reported(day=today, kind="code_execution", model=None, figures=fare))
    result = Reconciliation(
        fetched_at=format_seconds(now()),
        upstream_url="https://api.anthropic.com",
        upstream_organization_id="9c1d3b1e-0000-4000-8000-00000000abcd",
        from_day=yesterday,
        to_day=today,
        comparison=compare(reported, recorded.items, open_day=today, notes=recorded.notes),
    )
    write_reconciliation(data_dir, organization_id, result)
