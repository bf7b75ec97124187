"""``/settings/retention`` and ``/settings/endpoints/…/retention``: how long calls and texts are kept."""

import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import notices, rendering
from dashboard.settings.endpoints import EndpointSettings
from dashboard.settings.view import (
    DATA,
    ENDPOINTS,
    PATH,
    Reading,
    SettingsPage,
    SettingsView,
    explain,
)
from runtime.errors import ControlError, InvalidInputError, NotFoundError
from runtime.setting_values import parse_size
from store.control.retention import LIMITS, Rule

FORM = "retention"
_DAYS = re.compile(r"\d{1,9}", re.ASCII)


def _read(reading: Reading) -> Mapping[str, Any]:
    removal, visitor = reading.management.removal, reading.visitor
    return {
        "state": removal.read_state(visitor) if reading.is_owner else None,
        "erasures": removal.list_erasures(visitor) if reading.is_owner else (),
    }


PAGE = SettingsPage(part=DATA, template="settings_data.html", read=_read)
RULE_PAGE = SettingsPage(
    part=DATA,
    path="data/retention",
    template="settings_retention.html",
    is_for_owners=True,
    read=_read,
)


class RetentionSettings:
    def __init__(self, view: SettingsView, endpoints: EndpointSettings) -> None:
        self._view = view
        self._endpoints = endpoints

    def routes(self) -> list[BaseRoute]:
        return [
            self._view.route(PAGE),
            self._view.route(RULE_PAGE),
            Route(f"{PATH}/retention", self.set_rule, methods=["POST"]),
            Route(f"{PATH}/endpoints/{{id}}/retention", self.set_of_endpoint, methods=["POST"]),
        ]

    async def set_rule(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        try:
            rule = _parse_rule(form)
            await self._view.pool.run(
                lambda control: self._view.manage(control).removal.write_rule(visitor, rule)
            )
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, RULE_PAGE, FORM, form)
        return rendering.redirect(notices.address(DATA.address, "retention-set"))

    async def set_of_endpoint(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        id_ = request.path_params["id"]
        try:
            rule = _parse_rule(form)
            await self._view.pool.run(
                lambda control: self._view.manage(control).removal.write_rule(visitor, rule, id_)
            )
        except NotFoundError:
            raise
        except ControlError as error:
            problem = explain(error, FORM, form)
            return await self._endpoints.render_endpoint(visitor, id_, problem, error.status)
        return rendering.redirect(notices.address(ENDPOINTS.address, "retention-set"))


def _parse_rule(form: Mapping[str, str]) -> Rule:
    """Return the rule of a form, in which an empty field sets no limit. Raises InvalidInputError."""
    return Rule(**{limit.name: _PARSERS[limit.unit](form, limit.name) for limit in LIMITS})


def _parse_days(form: Mapping[str, str], name: str) -> int | None:
    text = form.get(name, "").strip()
    if text and not _DAYS.fullmatch(text):
        raise InvalidInputError("write a number of days, or nothing", name)
    return int(text) if text else None


def _parse_size(form: Mapping[str, str], name: str) -> int | None:
    text = form.get(name, "").strip()
    try:
        return parse_size(text) if text else None
    except ValueError as error:
        raise InvalidInputError(f"{error}, or nothing", name) from error


_PARSERS = {"days": _parse_days, "bytes": _parse_size}
