"""``/settings/security``: findings of extensions, the activity log, and the visitor's sign-ins."""

from collections.abc import Mapping
from typing import Any

from dashboard.settings.view import SECURITY, Reading, SettingsPage
from dashboard.site import Site
from runtime import extensions
from store.control import activity_log
from store.control.sessions import Visitor
from store.control.sign_in import SignIn

AUDIT_ENTRIES = 100


def _read(reading: Reading) -> Mapping[str, Any]:
    visitor = reading.visitor
    with reading.control.reading() as db:
        return {
            "sessions": SignIn(reading.control).count_sessions(visitor.user_id),
            "audit": activity_log.read(db, visitor.organization_id, AUDIT_ENTRIES)
            if reading.is_owner
            else (),
        }


def _read_sections(site: Site, visitor: Visitor) -> Mapping[str, Any]:
    sections = extensions.call().security_section(site=site, visitor=visitor)
    return {"sections": [each for each in sections if each is not None]}


PAGE = SettingsPage(
    part=SECURITY, template="settings_security.html", read=_read, read_calls=_read_sections
)
