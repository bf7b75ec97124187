"""``/settings/budgets`` and ``/settings/endpoints/…/budget``: budgets, their time zone and webhook.

The secret of a webhook is only in the response to the form that set it.
"""

import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import notices, rendering
from dashboard.settings.endpoints import EndpointSettings
from dashboard.settings.view import (
    BUDGETS,
    ENDPOINTS,
    PATH,
    Part,
    Reading,
    SettingsPage,
    SettingsView,
    explain,
)
from metering.budget_periods import Period
from runtime.errors import ControlError, InvalidInputError, NotFoundError
from store.control.budgets import Action, format_secret
from store.control.database import ControlDatabase
from store.control.sessions import Visitor
from store.pagination import MAX_LIMIT

FORM, ENDPOINT_FORM, ZONE_FORM, WEBHOOK_FORM = (
    "organization-budget",
    "budget",
    "time-zone",
    "webhook",
)
_PERIODS: Mapping[str, Period] = {"day": "day", "month": "month"}
_ACTIONS: Mapping[str, Action] = {"warn": "warn", "refuse": "refuse"}
_AMOUNT = re.compile(r"\$?\s*(\d{1,9}(?:\.\d{1,6})?)", re.ASCII)


def _read(reading: Reading) -> Mapping[str, Any]:
    visitor, budgets = reading.visitor, reading.management.budgets
    return {
        "budgets": budgets.list_by_subject(visitor),
        "endpoints": reading.management.list_endpoints(visitor, None, MAX_LIMIT).items,
        "time_zone": budgets.get_time_zone(visitor),
        "webhook": budgets.find_webhook(visitor) if reading.is_owner else None,
        "deliveries": budgets.list_deliveries(visitor) if reading.is_owner else (),
    }


PAGE = SettingsPage(part=BUDGETS, template="settings_budgets.html", read=_read)
BUDGET_PAGE = SettingsPage(
    part=BUDGETS,
    path="budgets/organization",
    template="settings_budget.html",
    is_for_owners=True,
    read=_read,
)


class BudgetSettings:
    def __init__(self, view: SettingsView, endpoints: EndpointSettings) -> None:
        self._view = view
        self._endpoints = endpoints

    def routes(self) -> list[BaseRoute]:
        one, all_ = f"{PATH}/endpoints/{{id}}/budget", f"{PATH}/budgets"
        return [
            self._view.route(PAGE),
            self._view.route(BUDGET_PAGE),
            Route(one, self.put_of_endpoint, methods=["POST"]),
            Route(f"{one}/delete", self.delete_of_endpoint, methods=["POST"]),
            Route(all_, self.put, methods=["POST"]),
            Route(f"{all_}/delete", self.delete, methods=["POST"]),
            Route(f"{all_}/time-zone", self.set_time_zone, methods=["POST"]),
            Route(f"{all_}/webhook", self.put_webhook, methods=["POST"]),
            Route(f"{all_}/webhook/delete", self.delete_webhook, methods=["POST"]),
        ]

    async def put_of_endpoint(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        id_ = request.path_params["id"]
        try:
            await self._view.pool.run(lambda control: self._put(control, visitor, id_, form))
        except NotFoundError:
            raise
        except ControlError as error:
            problem = explain(error, ENDPOINT_FORM, form)
            return await self._endpoints.render_endpoint(visitor, id_, problem, error.status)
        return rendering.redirect(notices.address(ENDPOINTS.address, "budget-set"))

    async def delete_of_endpoint(self, request: Request) -> Response:
        visitor, _ = await self._view.read_form(request)
        return await self._delete(request, visitor, request.path_params["id"], ENDPOINTS)

    async def put(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        try:
            await self._view.pool.run(lambda control: self._put(control, visitor, None, form))
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, BUDGET_PAGE, FORM, form)
        return rendering.redirect(notices.address(BUDGETS.address, "budget-set"))

    async def delete(self, request: Request) -> Response:
        visitor, _ = await self._view.read_form(request)
        return await self._delete(request, visitor, None, BUDGETS)

    async def set_time_zone(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        name = form.get("time_zone", "").strip()
        try:
            await self._view.pool.run(
                lambda control: self._view.manage(control).budgets.set_time_zone(visitor, name)
            )
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, PAGE, ZONE_FORM, form)
        return rendering.redirect(notices.address(BUDGETS.address, "time-zone-set"))

    async def put_webhook(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        url = form.get("url", "").strip()
        try:
            webhook = await self._view.pool.run(
                lambda control: self._view.manage(control).budgets.put_webhook(visitor, url)
            )
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, PAGE, WEBHOOK_FORM, form)
        return self._view.render_form(
            visitor,
            BUDGETS,
            "settings_new_webhook.html",
            201,
            webhook=webhook,
            secret=format_secret(webhook.secret),
        )

    async def delete_webhook(self, request: Request) -> Response:
        visitor, _ = await self._view.read_form(request)
        try:
            await self._view.pool.run(
                lambda control: self._view.manage(control).budgets.delete_webhook(visitor)
            )
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, PAGE)
        return rendering.redirect(notices.address(BUDGETS.address, "webhook-deleted"))

    def _put(
        self,
        control: ControlDatabase,
        visitor: Visitor,
        endpoint: str | None,
        form: Mapping[str, str],
    ) -> None:
        """Set a budget from a form. Raises ControlError."""
        self._view.manage(control).budgets.put(
            visitor,
            endpoint,
            period=_choose(_PERIODS, form, "period"),
            limit_usd=_parse_amount(form.get("limit_usd", "")),
            action=_choose(_ACTIONS, form, "action"),
        )

    async def _delete(
        self, request: Request, visitor: Visitor, endpoint: str | None, part: Part
    ) -> Response:
        try:
            await self._view.pool.run(
                lambda control: self._view.manage(control).budgets.delete(visitor, endpoint)
            )
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, PAGE)
        return rendering.redirect(notices.address(part.address, "budget-deleted"))


def _choose[Choice](choices: Mapping[str, Choice], form: Mapping[str, str], name: str) -> Choice:
    """Return the choice that a form has. Raises InvalidInputError."""
    try:
        return choices[form.get(name, "")]
    except KeyError as error:
        raise InvalidInputError(f"{name} is one of {', '.join(choices)}", name) from error


def _parse_amount(text: str) -> float:
    """Return an amount of dollars. Raises InvalidInputError."""
    found = _AMOUNT.fullmatch(text.replace(",", "").strip())
    if found is None:
        raise InvalidInputError("write an amount of dollars, such as 50 or 12.50", "limit_usd")
    return float(found[1])
