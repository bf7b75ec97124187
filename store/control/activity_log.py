"""Reading of the activity log, and the text of every action in it."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from store.control import (
    alerts,
    annotation_orders,
    api_keys,
    budget_alerts,
    budgets,
    credential_names,
    endpoints,
    erasures,
    invitations,
    people,
    retention,
    sessions,
    sign_in_links,
)
from store.control.audit import Activity
from store.control.records import Parsed, Table

_NOUNS = (
    alerts,
    annotation_orders,
    api_keys,
    budget_alerts,
    budgets,
    credential_names,
    endpoints,
    erasures,
    invitations,
    people,
    retention,
    sessions,
    sign_in_links,
)
ACTIVITIES: Mapping[str, str] = {
    action.name: action.words
    for noun in _NOUNS
    for action in vars(noun).values()
    if isinstance(action, Activity)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An entry of the activity log.

    ``user_id`` is None for the operator at the command line and for the service itself. ``details``
    then has the operator's account on that machine as ``operator``, or true as ``service``."""

    at: str
    organization_id: str
    user_id: str | None
    email: str | None
    action: str
    subject_id: str
    details: Annotated[dict[str, str | bool | None], Parsed(json.loads)]

    @property
    def activity(self) -> str:
        """Return the action in words, or its name if a newer version of the program wrote it."""
        return ACTIVITIES.get(self.action, self.action)


TABLE = Table("audit_log", AuditEntry)


def read(db: sqlite3.Connection, organization_id: str, limit: int = 100) -> Sequence[AuditEntry]:
    """Return the newest ``limit`` entries of an organisation's activity log, newest first."""
    return TABLE.read(
        db, "where organization_id = ? order by id desc limit ?", organization_id, limit
    )
