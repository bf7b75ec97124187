"""``/settings/endpoints``: create, change and delete proxy endpoints."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import notices, rendering
from dashboard.settings.view import (
    ENDPOINTS,
    PATH,
    Problem,
    Reading,
    SettingsPage,
    SettingsView,
    explain,
)
from dashboard.site import Site
from runtime.clock import now
from runtime.errors import ControlError, InvalidInputError, NotFoundError
from runtime.settings import Streaming
from store.control.budget_management import find_by_subject
from store.control.endpoints import ProxyEndpoint, StreamingChange
from store.control.sessions import Visitor
from store.database import list_columns
from store.pagination import MAX_LIMIT
from store.traces.paths import trace_path
from store.traces.sums.overview_query import SAID_COLUMNS
from store.traces.sums.tag_sums import count_values
from store.traces.sums.usage_report import Totals, read_groups

FORM, CHANGE_FORM = "create-endpoint", "change"
SHOWN_TAGS = 10
DAYS = 7  # of which the list has calls and cost
logger = logging.getLogger(__name__)

_MODES: Mapping[str, StreamingChange] = {
    "service": "service",
    **{mode: mode for mode in get_args(Streaming.__value__)},
}


def _read_endpoints(reading: Reading) -> Mapping[str, Any]:
    management, visitor = reading.management, reading.visitor
    return {
        "endpoints": management.list_endpoints(
            visitor, reading.query.get("endpoints"), MAX_LIMIT, finds_previous=True
        ),
        "budgets": find_by_subject(management.budgets.list_all(visitor)),
    }


def _read_totals(site: Site, visitor: Visitor) -> Mapping[str, Any]:
    """Return the totals of the last days by endpoint, and how many values tags had in them.

    They are None where they cannot be read."""
    path, today = trace_path(site.settings.data_dir, visitor.organization_id), now().date()
    totals: dict[str | None, Totals] | None = {}
    tags: dict[str, int] | None = {}
    if path.exists():
        try:
            with site.connections.lend(path) as db:
                first = today - timedelta(days=DAYS - 1)
                groups = read_groups(db, "endpoint", first, today)
                tags = (
                    count_values(db, first.isoformat()) if list_columns(db, "tags_hourly") else {}
                )
            totals = {group.proxy_endpoint_id: group.totals for group in groups}
        except sqlite3.Error as error:
            logger.warning("The sums of endpoints could not be read: %s", error)
            totals = tags = None
    others = [name for name in tags or {} if name not in SAID_COLUMNS]
    return {"totals": totals, "tags": tags, "other_tags": others[:SHOWN_TAGS], "days": DAYS}


PAGE = SettingsPage(
    part=ENDPOINTS,
    template="settings_endpoints.html",
    read=_read_endpoints,
    read_calls=_read_totals,
)
NEW_PAGE = SettingsPage(part=ENDPOINTS, path="new-endpoint", template="settings_new_endpoint.html")


class EndpointSettings:
    def __init__(self, view: SettingsView) -> None:
        self._view = view

    def routes(self) -> list[BaseRoute]:
        one = f"{PATH}/endpoints/{{id}}"
        return [
            self._view.route(PAGE),
            self._view.route(NEW_PAGE),
            Route(f"{PATH}/endpoints", self.create, methods=["POST"]),
            Route(one, self.edit_page, methods=["GET"]),
            Route(one, self.change, methods=["POST"]),
            Route(f"{one}/delete", self.confirm_delete, methods=["GET"]),
            Route(f"{one}/delete", self.delete, methods=["POST"]),
        ]

    async def create(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        try:
            mode = _parse_mode(form)
            await self._view.pool.run(
                lambda control: self._view.manage(control).create_endpoint(
                    visitor,
                    form.get("name", ""),
                    form.get("slug", "").strip() or None,
                    None if mode == "service" else mode,
                    metadata_only="metadata_only" in form or None,
                    upstream=form.get("upstream") or None,
                )
            )
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, NEW_PAGE, FORM, form)
        if form.get("from") == "home":
            return rendering.redirect(notices.address("/", "endpoint-created"))
        return rendering.redirect(notices.address(ENDPOINTS.address, "endpoint-created"))

    async def edit_page(self, request: Request) -> Response:
        visitor = await self._view.visitors.require(request)
        return await self.render_endpoint(visitor, request.path_params["id"])

    async def change(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        endpoint = await self._get(visitor, request.path_params["id"])
        try:
            mode = _parse_mode(form)
            await self._view.pool.run(
                lambda control: self._view.manage(control).update_endpoint(
                    visitor,
                    endpoint.id,
                    name=form.get("name", ""),
                    streaming=mode,
                    # Others cannot change it, so their form does not send it.
                    metadata_only="metadata_only" in form if visitor.role == "owner" else None,
                    upstream=form.get("upstream") or None,
                )
            )
        except NotFoundError:
            raise
        except ControlError as error:
            problem = explain(error, CHANGE_FORM, form)
            return await self.render_endpoint(visitor, endpoint.id, problem, error.status)
        return rendering.redirect(notices.address(ENDPOINTS.address, "endpoint-changed"))

    async def confirm_delete(self, request: Request) -> Response:
        visitor = await self._view.visitors.require(request)
        endpoint = await self._get(visitor, request.path_params["id"])
        return self._view.render_form(
            visitor,
            ENDPOINTS,
            "settings_delete_endpoint.html",
            endpoint=endpoint,
            kept_for=await self._find_guards(visitor, endpoint),
            url=self._view.settings.endpoint_url(endpoint.slug),
        )

    async def delete(self, request: Request) -> Response:
        visitor, _ = await self._view.read_form(request)
        id_ = request.path_params["id"]
        try:
            await self._view.pool.run(
                lambda control: self._view.manage(control).delete_endpoint(visitor, id_)
            )
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, PAGE)
        return rendering.redirect(notices.address(ENDPOINTS.address, "endpoint-deleted"))

    async def _get(self, visitor: Visitor, id_: str) -> ProxyEndpoint:
        """Return an endpoint. Raises NotFoundError for one that does not exist or belongs to another
        organisation."""
        return await self._view.pool.run(
            lambda control: self._view.manage(control).get_endpoint(visitor, id_)
        )

    async def _find_guards(self, visitor: Visitor, endpoint: ProxyEndpoint) -> Sequence[str]:
        """Return what keeps this visitor from changing and deleting an endpoint."""
        if visitor.role == "owner":
            return ()
        return await self._view.pool.run(
            lambda control: self._view.manage(control).find_guards(visitor, endpoint.id)
        )

    async def render_endpoint(
        self,
        visitor: Visitor,
        id_: str,
        problem: Problem | None = None,
        status: int = 200,
    ) -> Response:
        """Return the page of an endpoint. Raises NotFoundError as ``_get`` does."""
        endpoint = await self._get(visitor, id_)
        budget = await self._view.pool.run(
            lambda control: self._view.manage(control).budgets.find(visitor, endpoint.id)
        )
        rule = await self._view.pool.run(
            lambda control: self._view.manage(control).removal.read_rule(visitor, endpoint.id)
        )
        return self._view.render_form(
            visitor,
            ENDPOINTS,
            "settings_endpoint.html",
            status,
            endpoint=endpoint,
            budget=budget,
            rule=rule,
            kept_for=await self._find_guards(visitor, endpoint),
            url=self._view.settings.endpoint_url(endpoint.slug),
            problem=problem,
        )


def _parse_mode(form: Mapping[str, str]) -> StreamingChange:
    try:
        return _MODES[form.get("streaming", "service")]
    except KeyError as error:
        raise InvalidInputError(
            "streaming is live, buffered, or as the service does it", "streaming"
        ) from error
