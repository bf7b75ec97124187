"""``/settings/budgets`` and ``/settings/endpoints/…/budget``: budgets, their time zone and webhook.

The secret of a webhook is only in the response to the form that set it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

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
from metering.attribution import Part as PartOfCalls, PartKind
from metering.budget_periods import Period
from metering.budget_shares import DEFAULT_SHARES
from runtime.errors import ControlError, InvalidInputError, NotFoundError
from store.control.budget_management import find_by_subject
from store.control.budgets import Action, Budget, Format, format_secret, parse_part
from store.control.database import ControlDatabase
from store.control.sessions import Visitor
from store.pagination import MAX_LIMIT

FORM, ENDPOINT_FORM, PART_FORM, ZONE_FORM, WEBHOOK_FORM = (
    "organization-budget",
    "budget",
    "part-budget",
    "time-zone",
    "webhook",
)
_PERIODS: Mapping[str, Period] = {"day": "day", "week": "week", "month": "month"}
_KINDS: Mapping[str, PartKind] = {"user": "user", "project": "project", "tag": "tag"}
_FORMATS: Mapping[str, Format] = {"plain": "plain", "slack": "slack", "teams": "teams"}
_ACTIONS: Mapping[str, Action] = {"warn": "warn", "refuse": "refuse"}
_PERCENTAGE = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)\s*%?", re.ASCII)
_AMOUNT = re.compile(r"\$?\s*(\d{1,9}(?:\.\d{1,6})?)", re.ASCII)


def _read(reading: Reading) -> Mapping[str, Any]:
    visitor, budgets = reading.visitor, reading.management.budgets
    statuses = budgets.list_all(visitor)
    return {
        "budgets": find_by_subject(statuses),
        "part_budgets": [each for each in statuses if each.budget.of is not None],
        "part_address": _write_part_address,
        "endpoints": reading.management.list_endpoints(visitor, None, MAX_LIMIT).items,
        "time_zone": budgets.get_time_zone(visitor),
        "rules": reading.management.alerts.list(visitor),
        "webhook": budgets.find_webhook(visitor) if reading.is_owner else None,
        "deliveries": budgets.list_deliveries(visitor) if reading.is_owner else (),
    }


def _write_part_address(budget: Budget) -> str:
    return f"{PART_PAGE.address}?{urlencode({'kind': budget.of_kind, 'of': budget.of_value})}"


def _read_part(reading: Reading) -> Mapping[str, Any]:
    """Return the budget of the part that the address names, to change it; without one nothing."""
    kind = _KINDS.get(reading.query.get("kind", ""), "user")
    chosen = PartOfCalls(kind, reading.query.get("of", ""))
    statuses = reading.management.budgets.list_all(reading.visitor)
    found = [
        each
        for each in statuses
        if each.budget.proxy_endpoint_id is None and each.budget.of == chosen
    ]
    return {"chosen": chosen, "existing": found[0] if found else None}


PART_PAGE = SettingsPage(
    part=BUDGETS,
    path="budgets/part",
    template="settings_budget_part.html",
    is_for_owners=True,
    read=_read_part,
)
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
            self._view.route(PART_PAGE),
            Route(one, self.put_of_endpoint, methods=["POST"]),
            Route(f"{one}/delete", self.delete_of_endpoint, methods=["POST"]),
            Route(all_, self.put, methods=["POST"]),
            Route(f"{all_}/part", self.put_of_part, methods=["POST"]),
            Route(f"{all_}/part/delete", self.delete_of_part, methods=["POST"]),
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

    async def put_of_part(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        try:
            of = _parse_part(form)
            await self._view.pool.run(
                lambda control: self._put(control, visitor, None, {**form, "action": "warn"}, of)
            )
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, PART_PAGE, PART_FORM, form)
        return rendering.redirect(notices.address(BUDGETS.address, "budget-set"))

    async def delete_of_part(self, request: Request) -> Response:
        visitor, form = await self._view.read_form(request)
        try:
            of = _parse_part(form)
            await self._view.pool.run(
                lambda control: self._view.manage(control).budgets.delete(visitor, None, of)
            )
        except ControlError as error:
            return await self._view.refuse(request, visitor, error, PAGE)
        return rendering.redirect(notices.address(BUDGETS.address, "budget-deleted"))

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
            format_ = _choose(_FORMATS, {"format": "plain", **form}, "format")
            webhook = await self._view.pool.run(
                lambda control: self._view.manage(control).budgets.put_webhook(
                    visitor, url, format_
                )
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
        of: PartOfCalls | None = None,
    ) -> None:
        """Set a budget from a form. Raises ControlError."""
        self._view.manage(control).budgets.put(
            visitor,
            endpoint,
            period=_choose(_PERIODS, form, "period"),
            limit_usd=_parse_amount(form.get("limit_usd", "")),
            action=_choose(_ACTIONS, form, "action"),
            warn_at=_parse_shares(form.get("warn_at")),
            of=of,
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


def _parse_shares(text: str | None) -> Sequence[float] | None:
    """Return the shares of percentages; None for those that a budget has anyway.

    Raises InvalidInputError."""
    if text is None:
        return None
    shares = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        found = _PERCENTAGE.fullmatch(part)
        if found is None or not 0 < float(found[1]) <= 100:
            raise InvalidInputError(
                "write percentages above 0 and up to 100, such as 50%, 90%", "warn_at"
            )
        shares.append(float(found[1]) / 100)
    return None if tuple(shares) == DEFAULT_SHARES else shares


def _parse_part(form: Mapping[str, str]) -> PartOfCalls:
    """Return the part of the calls that a form names. Raises InvalidInputError."""
    return parse_part(_choose(_KINDS, form, "kind"), form.get("of", "").strip())
