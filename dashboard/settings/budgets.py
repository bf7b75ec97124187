"""``/settings/budgets`` and ``/settings/endpoints/…/budget``: budgets, their time zone and webhook.

The secret of a webhook is only displayed in the response to the form that set it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard.settings.endpoints import ENDPOINT_PAGE
from dashboard.settings.view import (
    BUDGETS,
    Reading,
    Sent,
    SettingsPage,
    SettingsView,
    choose,
)
from metering.attribution import Part as PartOfCalls, PartKind
from metering.budget_periods import Period
from metering.budget_shares import DEFAULT_SHARES
from runtime.errors import InvalidInputError
from store.control.budget_management import find_by_subject
from store.control.budgets import Action, Budget, Format, Webhook, format_secret, parse_part
from store.control.management import Management
from store.pagination import MAX_LIMIT

FORM, ENDPOINT_FORM, PART_FORM, ZONE_FORM, WEBHOOK_FORM = (
    "organization-budget",
    "budget",
    "part-budget",
    "time-zone",
    "webhook",
)
_PERIODS: tuple[Period, ...] = get_args(Period.__value__)
_KINDS: tuple[PartKind, ...] = get_args(PartKind.__value__)
_FORMATS: tuple[Format, ...] = get_args(Format.__value__)
_ACTIONS: tuple[Action, ...] = get_args(Action.__value__)
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
    """Return template variables: the part of the calls in the address, and its budget, None if it has
    none."""
    given = reading.query.get("kind", "")
    kind = next((each for each in _KINDS if each == given), _KINDS[0])
    chosen = PartOfCalls(kind, reading.query.get("of", ""))
    statuses = reading.management.budgets.list_all(reading.visitor)
    found = (
        each
        for each in statuses
        if each.budget.proxy_endpoint_id is None and each.budget.of == chosen
    )
    return {"chosen": chosen, "existing": next(found, None)}


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
    def __init__(self, view: SettingsView) -> None:
        self._view = view

    def routes(self) -> list[BaseRoute]:
        form, one = self._view.form, "endpoints/{id}/budget"
        return [
            self._view.route(PAGE),
            self._view.route(BUDGET_PAGE),
            self._view.route(PART_PAGE),
            form(one, _put, ENDPOINT_PAGE, "budget-set", name=ENDPOINT_FORM),
            form(f"{one}/delete", _delete, ENDPOINT_PAGE, "budget-deleted"),
            form("budgets", _put, BUDGET_PAGE, "budget-set", name=FORM),
            form("budgets/part", _put_part, PART_PAGE, "budget-set", name=PART_FORM),
            form("budgets/part/delete", _delete_part, PAGE, "budget-deleted"),
            form("budgets/delete", _delete, PAGE, "budget-deleted"),
            form("budgets/time-zone", _set_time_zone, PAGE, "time-zone-set", name=ZONE_FORM),
            form("budgets/webhook", _put_webhook, PAGE, self._show_secret, name=WEBHOOK_FORM),
            form("budgets/webhook/delete", _delete_webhook, PAGE, "webhook-deleted"),
        ]

    async def _show_secret(self, sent: Sent, webhook: Webhook) -> Response:
        return self._view.show(
            sent.visitor,
            BUDGETS,
            "settings_new_webhook.html",
            201,
            webhook=webhook,
            secret=format_secret(webhook.secret),
        )


def _put(management: Management, sent: Sent) -> None:
    _put_budget(management, sent, sent.fields, None)


def _put_part(management: Management, sent: Sent) -> None:
    _put_budget(management, sent, {**sent.fields, "action": "warn"}, _parse_part(sent.fields))


def _put_budget(
    management: Management, sent: Sent, form: Mapping[str, str], of: PartOfCalls | None
) -> None:
    """Set the budget of a form for the endpoint in the address, else the organisation. Raises
    ControlError."""
    management.budgets.put(
        sent.visitor,
        sent.id or None,
        period=choose(_PERIODS, form, "period"),
        limit_usd=_parse_amount(form.get("limit_usd", "")),
        action=choose(_ACTIONS, form, "action"),
        warn_at=_parse_shares(form.get("warn_at")),
        of=of,
    )


def _delete(management: Management, sent: Sent) -> None:
    management.budgets.delete(sent.visitor, sent.id or None)


def _delete_part(management: Management, sent: Sent) -> None:
    management.budgets.delete(sent.visitor, None, _parse_part(sent.fields))


def _set_time_zone(management: Management, sent: Sent) -> None:
    management.budgets.set_time_zone(sent.visitor, sent.fields.get("time_zone", "").strip())


def _put_webhook(management: Management, sent: Sent) -> Webhook:
    format_ = choose(_FORMATS, {"format": "plain", **sent.fields}, "format")
    return management.budgets.put_webhook(sent.visitor, sent.fields.get("url", "").strip(), format_)


def _delete_webhook(management: Management, sent: Sent) -> None:
    management.budgets.delete_webhook(sent.visitor)


def _parse_amount(text: str) -> float:
    """Return an amount in US dollars. Raises InvalidInputError."""
    found = _AMOUNT.fullmatch(text.replace(",", "").strip())
    if found is None:
        raise InvalidInputError("write an amount of dollars, such as 50 or 12.50", "limit_usd")
    return float(found[1])


def _parse_shares(text: str | None) -> Sequence[float] | None:
    """Return percentages as shares (0 to 1); None for a missing field and for the default shares.

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
    """Return the part of the calls that a form names, by kind and value. Raises InvalidInputError."""
    return parse_part(choose(_KINDS, form, "kind"), form.get("of", "").strip())
