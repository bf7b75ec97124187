"""The last reconciliation of an organisation, as a file beside its traces.

It is the document that ``taximeter reconcile --json`` prints: figures, ids of workspaces and keys, and
no key. Only the owner of the data directory may read it.
"""

from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from extensions.reconcile import FILE
from extensions.reconcile.comparison import Comparison
from runtime.files import replace_private
from store.traces.paths import trace_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """A comparison with its period (UTC days, both included) and the source of the reports.

    ``upstream_organization_id`` is None if upstream did not name the organisation of the key.
    ``analytics``: the reports are the analytics reports."""

    fetched_at: str
    upstream_url: str
    upstream_organization_id: str | None
    from_day: date
    to_day: date
    comparison: Comparison
    analytics: bool = False


class UnreadableError(Exception):
    """The file was not written by this version."""


@cache  # to make it takes longer than most of what is imported
def _get_format() -> TypeAdapter[Reconciliation]:
    return TypeAdapter(Reconciliation)


def make_document(reconciliation: Reconciliation) -> dict[str, Any]:
    """Return the reconciliation as a JSON document: costs are numbers, and days are text."""
    document: dict[str, Any] = orjson.loads(orjson.dumps(reconciliation, default=float))
    comparison: dict[str, Any] = document.pop("comparison")
    document["from"], document["to"] = document.pop("from_day"), document.pop("to_day")
    return document | comparison


def write_reconciliation(
    data_dir: Path, organization_id: str, reconciliation: Reconciliation
) -> None:
    """Replace the file with the last reconciliation of an organisation. Raises OSError."""
    path = find_file(data_dir, organization_id)
    for folder in (path.parent.parent, path.parent):  # before the first call there is none
        folder.mkdir(mode=0o700, exist_ok=True)
    replace_private(path, orjson.dumps(make_document(reconciliation)))


def read_reconciliation(data_dir: Path, organization_id: str) -> Reconciliation | None:
    """Return the last reconciliation, None if there is none. Raises OSError, UnreadableError."""
    try:
        content = find_file(data_dir, organization_id).read_bytes()
    except FileNotFoundError:
        return None
    try:
        document = orjson.loads(content)
        head = {
            "fetched_at": document.pop("fetched_at"),
            "upstream_url": document.pop("upstream_url"),
            "upstream_organization_id": document.pop("upstream_organization_id"),
            "from_day": document.pop("from"),
            "to_day": document.pop("to"),
            "analytics": document.pop("analytics", False),
        }
        return _get_format().validate_python(head | {"comparison": document})
    except (ValueError, KeyError, AttributeError, TypeError, ValidationError) as error:
        raise UnreadableError("the file of the last reconciliation cannot be read") from error


def find_file(data_dir: Path, organization_id: str) -> Path:
    """Return the path of the file with an organisation's last reconciliation. Raises ValueError."""
    return trace_path(data_dir, organization_id).with_name(FILE)
