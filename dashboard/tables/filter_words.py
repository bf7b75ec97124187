"""The filters of a table page in words, in place of Datasette's ``outcome not in ["complete"]``."""

import json
from collections.abc import Iterable

from dashboard.formats import outcome_label

type Condition = tuple[str, str, str]  # column, comparison, value

BODIES = ("request_body", "response_body")
_COLUMNS = {
    "created_at": "time",
    "proxy_endpoint_id": "endpoint id",
    "slug": "endpoint",
    "status_code": "status",
}
_WORDS = {
    "exact": "is {value}",
    "not": "is not {value}",
    "contains": "contains {value}",
    "endswith": "ends with {value}",
    "startswith": "starts with {value}",
    "gt": "is more than {value}",
    "gte": "is at least {value}",
    "lt": "is less than {value}",
    "lte": "is at most {value}",
    "like": "is like {value}",
    "notlike": "is not like {value}",
    "glob": "matches {value}",
    "in": "is {value}",
    "notin": "is not {value}",
    "arraycontains": "contains {value}",
    "arraynotcontains": "does not contain {value}",
    "date": "is on {value}",
    "isnull": "is not set",
    "notnull": "is set",
    "isblank": "is blank",
    "notblank": "is not blank",
}
_TIME_WORDS = {
    "gt": "is after {value}",
    "gte": "is from {value}",
    "lt": "is before {value}",
    "lte": "is up to {value}",
}


def describe(conditions: Iterable[Condition]) -> str:
    """Return the conditions in words, as in "where model is x and time is from 2026-01-02". Without
    conditions it is ""."""
    phrases = [_describe_one(*each) for each in conditions if each[1] in _WORDS]
    return f"where {' and '.join(phrases)}" if phrases else ""


def reads_bodies(conditions: Iterable[Condition], extra_sql: Iterable[str] = ()) -> bool:
    """Return whether a condition searches the raw text of bodies."""
    return any(column in BODIES for column, _, _ in conditions) or any(
        body in sql for sql in extra_sql for body in BODIES
    )


def _describe_one(column: str, comparison: str, value: str) -> str:
    is_time = column.endswith(("_at", "hour"))
    words = (_TIME_WORDS if is_time else {}).get(comparison, _WORDS[comparison])
    values = _split(value) if comparison in ("in", "notin") else [value]
    if column == "outcome":
        values = [outcome_label(each) for each in values]
    name = _COLUMNS.get(column, column.replace("_", " "))
    return f"{name} {words.replace('{value}', ' or '.join(values))}"


def _split(value: str) -> list[str]:
    """Split the value of a list filter into its values, as Datasette does."""
    if value.startswith("["):
        try:
            return [str(each) for each in json.loads(value)]
        except (ValueError, TypeError, RecursionError):
            return [value]
    return [each.strip() for each in value.split(",")]


GLOBALS = {"describe_conditions": describe, "reads_bodies": reads_bodies}
