"""Run ids: the calls of one client, grouped by an id in its base URL.

``taximeter run`` gives its client the base URL ``<service>/proxy/<slug>/run/<run id>``. Every client
that can be configured with a base URL uses it for each call; no header, session id or time window
identifies the calls as reliably.
"""

import re
import secrets

_PREFIX = "/run/"
# It must not begin as a service API key does, because run ids are stored.
_RUN_ID = re.compile(r"(?!sk[-_])[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def new_run_id() -> str:
    """Return an id that no other run has."""
    return secrets.token_hex(8)


def is_run_id(text: str) -> bool:
    """Return whether a text is a valid run id in a path."""
    return _RUN_ID.fullmatch(text) is not None


def split_path(path: str) -> tuple[str | None, str]:
    """Split the part of a proxy path after the slug into the run id and the rest.

    Without a valid run id, return None and the whole path."""
    if not path.startswith(_PREFIX):
        return None, path
    run_id, slash, rest = path[len(_PREFIX) :].partition("/")
    return (run_id, slash + rest) if is_run_id(run_id) else (None, path)


def append_run(endpoint_url: str, run_id: str) -> str:
    """Return the base URL for a run at a proxy endpoint."""
    return f"{endpoint_url}{_PREFIX}{run_id}"
