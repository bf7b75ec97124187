"""Checks that reserve some changes of an endpoint to owners.

A budget, a rule of retention and whether bodies are stored are an owner's decisions, which other
members could undo by deleting or changing the endpoint. The upstream of an endpoint is reserved
too, since the credentials of its clients are sent there."""

import sqlite3
from collections.abc import Sequence
from typing import Literal

from runtime.setting_values import SERVICE_UPSTREAM
from store.control import budgets, retention
from store.control.audited import require_owner
from store.control.endpoints import ProxyEndpoint, UpstreamChange
from store.control.people import Caller


def find(db: sqlite3.Connection, endpoint: ProxyEndpoint) -> Sequence[str]:
    """Return why only owners may change or delete an endpoint, such as ["a budget"]; empty if members may."""
    found = []
    if budgets.find(db, endpoint.organization_id, endpoint) is not None:
        found.append("a budget")
    if not retention.find(db, endpoint.organization_id, endpoint.id).is_empty:
        found.append("a retention rule")
    return found


def check_change(
    db: sqlite3.Connection,
    caller: Caller,
    endpoint: ProxyEndpoint,
    what: Literal["change", "delete"],
) -> None:
    """Check that the caller may change or delete an endpoint. Raises ForbiddenError."""
    if guards := find(db, endpoint):
        require_owner(caller, f"{what} an endpoint that has {' and '.join(guards)}")


def check_upstream(
    caller: Caller, endpoint: ProxyEndpoint, upstream: UpstreamChange | None
) -> None:
    """Check that the caller may set ``upstream`` (None leaves it unchanged). Raises ForbiddenError."""
    if upstream not in (None, endpoint.upstream or SERVICE_UPSTREAM):
        require_owner(caller, f"change to which upstream {endpoint.slug!r} sends calls")


def check_bodies(caller: Caller, endpoint: ProxyEndpoint, metadata_only: bool | None) -> None:
    """Check that the caller may set ``metadata_only`` (None leaves it unchanged). Raises ForbiddenError."""
    if metadata_only not in (None, endpoint.metadata_only):
        require_owner(caller, f"change whether bodies of {endpoint.slug!r} are stored")
