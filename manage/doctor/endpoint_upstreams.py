"""The upstreams of proxy endpoints, for the checks."""

import sqlite3
from contextlib import closing, suppress

from runtime.settings import Settings, Upstream
from store.control.endpoints import list_with_upstream
from store.database import open_readonly

BUSY_TIMEOUT_S = 1.0


def find_upstream(settings: Settings, slug: str) -> Upstream | None:
    """Return the upstream of an endpoint, that of the service for one that is not known here."""
    name = None
    with (
        suppress(sqlite3.Error),
        closing(open_readonly(settings.control_path, busy_timeout_s=BUSY_TIMEOUT_S)) as db,
    ):
        name = next((each.upstream for each in list_with_upstream(db) if each.slug == slug), None)
    return settings.find_upstream(name)
