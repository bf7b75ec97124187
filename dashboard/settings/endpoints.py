"""``/settings/endpoints``: create, change and delete proxy endpoints."""

import logging
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, get_args

from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import notices, rendering
from dashboard.addresses import HOME
from dashboard.settings.view import ENDPOINTS, Reading, Sent, SettingsPage, SettingsView
from dashboard.site import Site
from runtime.clock import now
from runtime.errors import InvalidInputError
from runtime.settings import Streaming
from store.control.budget_management import find_by_subject
from store.control.endpoints import StreamingChange
from store.control.management import Management
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
    """Return the totals of the last days by endpoint, and the number of values of each tag.

    Both are None if they cannot be read."""
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


def _read_endpoint(reading: Reading) -> Mapping[str, Any]:
    """Return an endpoint with its settings.

    Raises NotFoundError if it does not exist or belongs to another organisation."""
    management, visitor = reading.management, reading.visitor
    endpoint = management.get_endpoint(visitor, reading.id)
    return {
        "endpoint": endpoint,
        "kept_for": () if reading.is_owner else management.find_guards(visitor, endpoint.id),
        "budget": management.budgets.find(visitor, endpoint.id),
        "rule": management.removal.read_rule(visitor, endpoint.id),
    }


ENDPOINT_PAGE = SettingsPage(
    part=ENDPOINTS, path="endpoints/{id}", template="settings_endpoint.html", read=_read_endpoint
)
DELETE_PAGE = SettingsPage(
    part=ENDPOINTS,
    path="endpoints/{id}/delete",
    template="settings_delete_endpoint.html",
    read=_read_endpoint,
)


class EndpointSettings:
    def __init__(self, view: SettingsView) -> None:
        self._view = view

    def routes(self) -> list[BaseRoute]:
        form, one = self._view.form, "endpoints/{id}"
        return [
            self._view.route(PAGE),
            self._view.route(NEW_PAGE),
            self._view.route(ENDPOINT_PAGE),
            self._view.route(DELETE_PAGE),
            form("endpoints", _create, NEW_PAGE, _lead_back, name=FORM),
            form(one, _change, ENDPOINT_PAGE, "endpoint-changed", name=CHANGE_FORM),
            form(f"{one}/delete", _delete, PAGE, "endpoint-deleted"),
        ]


def _create(management: Management, sent: Sent) -> None:
    form, mode = sent.fields, _parse_mode(sent.fields)
    management.create_endpoint(
        sent.visitor,
        form.get("name", ""),
        form.get("slug", "").strip() or None,
        None if mode == "service" else mode,
        metadata_only="metadata_only" in form or None,
        upstream=form.get("upstream") or None,
    )


async def _lead_back(sent: Sent, _created: object) -> Response:
    page = HOME if sent.fields.get("from") == "home" else ENDPOINTS.address
    return rendering.redirect(notices.address(page, "endpoint-created"))


def _change(management: Management, sent: Sent) -> None:
    form, endpoint = sent.fields, management.get_endpoint(sent.visitor, sent.id)
    management.update_endpoint(
        sent.visitor,
        endpoint.id,
        name=form.get("name", ""),
        streaming=_parse_mode(form),
        # Others cannot change it, so their form does not send it.
        metadata_only="metadata_only" in form if sent.visitor.role == "owner" else None,
        upstream=form.get("upstream") or None,
    )


def _delete(management: Management, sent: Sent) -> None:
    management.delete_endpoint(sent.visitor, sent.id)


def _parse_mode(form: Mapping[str, str]) -> StreamingChange:
    try:
        return _MODES[form.get("streaming", "service")]
    except KeyError as error:
        raise InvalidInputError(
            "streaming is live, buffered, or as the service does it", "streaming"
        ) from error
