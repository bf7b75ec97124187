"""``/settings/budgets/alerts``: adding and deleting alerts, and sending a test of one."""

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, get_args

from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import notices, rendering
from dashboard.settings.budgets import PAGE
from dashboard.settings.view import (
    BUDGETS,
    Reading,
    Sent,
    SettingsPage,
    SettingsView,
    choose,
)
from runtime.errors import InvalidInputError
from store.control.alert_management import RuleStatus
from store.control.alerts import Kind
from store.control.budgets import Format
from store.control.database import ControlDatabase
from store.control.delivery_rows import Channel
from store.control.management import Management
from store.control.sessions import Visitor

FORM = "alert"
KINDS: Mapping[Kind, str] = {
    "day_cost": "A day costs so many dollars",
    "session_cost": "A session costs so many dollars",
    "errors": "So many calls fail within an hour",
    "window": "So much of a subscription's window is used",
}
# How long the page waits for the result of a test, which is sent within two seconds.
LOOKS, LOOK_S = 30, 0.2
_THRESHOLD = re.compile(r"\$?\s*(\d{1,9}(?:\.\d{1,6})?)\s*(%?)", re.ASCII)


def _read(reading: Reading) -> Mapping[str, Any]:
    visitor, management = reading.visitor, reading.management
    return {
        "kinds": KINDS.items(),
        "webhook": management.budgets.find_webhook(visitor),
        "proposal": management.alerts.propose_day_cost(visitor),
    }


ALERT_PAGE = SettingsPage(
    part=BUDGETS,
    path="budgets/alert",
    template="settings_alert.html",
    is_for_owners=True,
    read=_read,
)


class AlertSettings:
    def __init__(self, view: SettingsView) -> None:
        self._view = view

    def routes(self) -> list[BaseRoute]:
        return [
            self._view.route(ALERT_PAGE),
            self._view.form("budgets/alerts", _create, ALERT_PAGE, "alert-added", name=FORM),
            self._view.form("budgets/alerts/{id}/delete", _delete, PAGE, "alert-deleted"),
            self._view.form("budgets/alerts/{id}/test", _test, PAGE, self._report),
        ]

    async def _report(self, sent: Sent, status: RuleStatus) -> Response:
        code = await self._wait(sent.visitor, status)
        return rendering.redirect(notices.address(BUDGETS.address, code))

    async def _wait(self, visitor: Visitor, status: RuleStatus) -> str:
        """Return the code of the notice about a test's result, after waiting for the result up to 6 s."""
        for _ in range(LOOKS):
            latest = status.latest
            if latest is not None and latest.due_at is None:
                return "test-failed" if latest.delivered_at is None else "test-delivered"
            await asyncio.sleep(LOOK_S)
            status = await self._view.pool.run(partial(self._find, visitor, status.rule.id))
        return "test-waits"

    def _find(self, visitor: Visitor, rule_id: str, control: ControlDatabase) -> RuleStatus:
        return self._view.manage(control).alerts.find(visitor, rule_id)


def _create(management: Management, sent: Sent) -> None:
    management.alerts.create(sent.visitor, **_parse(sent.fields))


def _test(management: Management, sent: Sent) -> RuleStatus:
    return management.alerts.test(sent.visitor, sent.id)


def _delete(management: Management, sent: Sent) -> None:
    management.alerts.delete(sent.visitor, sent.id)


def _parse(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of an alert from a form. Raises InvalidInputError."""
    kind = choose(KINDS, form, "kind")
    channel = choose(get_args(Channel.__value__), form, "channel")
    format_ = choose(get_args(Format.__value__), form, "format")
    is_webhook = channel == "webhook"
    return {
        "kind": kind,
        "threshold": _parse_threshold(kind, form.get("threshold", "")),
        "channel": channel,
        "format": format_ if is_webhook else "plain",
        "url": (form.get("url", "").strip() or None) if is_webhook else None,
    }


def _parse_threshold(kind: str, text: str) -> float:
    """Return the threshold as a number; for a window it is a share, which may be written as a percentage.

    Raises InvalidInputError."""
    found = _THRESHOLD.fullmatch(text.replace(",", "").strip())
    if found is None or (found[2] and kind != "window"):
        example = "a percentage such as 90%" if kind == "window" else "a number such as 20"
        raise InvalidInputError(f"write {example}", "threshold")
    number = float(found[1])
    is_percentage = kind == "window" and (found[2] or number > 1)
    return number / 100 if is_percentage else number
