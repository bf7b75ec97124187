"""``/settings/people``: the members of the organisation, the visitor's keys and their organisations."""

from collections.abc import Mapping
from typing import Any

from dashboard.settings.view import PEOPLE, Reading, SettingsPage
from store.pagination import MAX_LIMIT


def _read(reading: Reading) -> Mapping[str, Any]:
    management, visitor = reading.management, reading.visitor
    members = management.list_members(visitor)
    return {
        "members": members,
        "owners": sum(member.role == "owner" for member in members),
        "invitations": management.list_invitations(visitor) if reading.is_owner else (),
        "keys": management.list_keys(
            visitor, reading.query.get("keys"), MAX_LIMIT, finds_previous=True
        ),
        "organizations": management.list_organizations(visitor),
    }


PAGE = SettingsPage(part=PEOPLE, template="settings_people.html", read=_read)
