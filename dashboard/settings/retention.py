"""``/settings/retention`` and ``/settings/endpoints/…/retention``: how long calls and texts are kept."""

import re
from collections.abc import Mapping
from typing import Any

from starlette.routing import BaseRoute

from dashboard.settings.endpoints import ENDPOINT_PAGE
from dashboard.settings.view import DATA, Reading, Sent, SettingsPage, SettingsView
from runtime.errors import InvalidInputError
from runtime.setting_values import parse_size
from store.control.management import Management
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
    def __init__(self, view: SettingsView) -> None:
        self._view = view

    def routes(self) -> list[BaseRoute]:
        form = self._view.form
        return [
            self._view.route(PAGE),
            self._view.route(RULE_PAGE),
            form("retention", _set_rule, RULE_PAGE, "retention-set", name=FORM),
            form("endpoints/{id}/retention", _set_rule, ENDPOINT_PAGE, "retention-set", name=FORM),
        ]


def _set_rule(management: Management, sent: Sent) -> None:
    """Set the rule of a form for the endpoint in the address, else the organisation. Raises ControlError."""
    management.removal.write_rule(sent.visitor, _parse_rule(sent.fields), sent.id or None)


def _parse_rule(form: Mapping[str, str]) -> Rule:
    """Return the retention rule of a form; an empty field sets no limit. Raises InvalidInputError."""
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
