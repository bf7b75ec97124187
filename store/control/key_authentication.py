"""Authentication with a service API key, for the API and the trace browser."""

import re
import sqlite3
from contextlib import suppress
from datetime import datetime, timedelta

from runtime import clock
from store.control import api_keys
from store.control.api_keys import KeyHolder
from store.control.database import ControlDatabase

USED_STEP = timedelta(minutes=1)  # a request with a key must not become a write
# In the scope of a request: its caller, where another machine of the service has checked who that is.
STATED_CALLER = "taximeter.caller"
_BEARER = re.compile(r"bearer +(\S+) *", re.ASCII | re.IGNORECASE)


def parse_bearer(authorization: str) -> str | None:
    """Return the token of an ``Authorization`` header, or None if its scheme is not Bearer."""
    match = _BEARER.fullmatch(authorization)
    return None if match is None else match[1]


def identify(control: ControlDatabase, raw_key: str, now: datetime) -> KeyHolder | None:
    """Return the owner of a valid key, or None; note when the key was used."""
    with control.reading() as db:
        holder = api_keys.find_holder(db, raw_key)
    if holder is None:
        return None
    if holder.last_used_at is None or holder.last_used_at <= clock.format_ms(now - USED_STEP):
        # While another process writes, the request continues without it; the next one updates it.
        with suppress(sqlite3.OperationalError), control.transaction(wait=False) as db:
            api_keys.note_use(db, holder.key_id, clock.format_ms(now))
    return holder
