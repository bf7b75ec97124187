"""Says what went wrong, in words for whoever asked.

A mistake in what was asked for is told and gets a 4xx; Datasette answers many of them with 500. What
is our fault is logged and not told: the text of an exception may hold paths.
"""

import json
import logging
import sqlite3
from dataclasses import dataclass

from dashboard.tables import arguments
from dashboard.tables.patched_datasette import Base400, DatasetteError, QueryInterrupted, Request

_MAX_SHOWN = 200
TOO_HUNGRY = "The query needs more memory than there is. Ask for fewer or shorter values."
_TOO_SLOW = (
    "The query took too long and was stopped. Narrow it: add a condition on id or"
    " created_at, use fewer facets, or query usage_hourly for totals over a long time."
)

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Asked:
    """It holds what Datasette is told of a request, as ``taximeter`` in its scope, and tells of it."""

    is_for_program: bool
    is_explained: bool = False  # an error was put in words that may be shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake is told in these words. ``status`` is that of HTTP; ``sql`` is the query that was at fault."""

    status: int
    title: str
    message: str
    sql: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return it in Datasette's shape."""
        return {
            "ok": False,
            "error": self.message,
            "status": self.status,
            "title": self.title,
        }


def describe(exception: Exception, request: Request) -> Mistake:
    """Find whose fault it is, and what to say. What is ours is logged here."""
    if isinstance(exception, QueryInterrupted):
        return Mistake(status=400, title="Query timed out", message=_TOO_SLOW, sql=exception.sql)
    if isinstance(exception, DatasetteError):
        return _describe_told(exception)
    if isinstance(exception, Base400):
        return _describe_refusal(exception)
    if isinstance(exception, MemoryError):
        return Mistake(status=400, title="Too large", message=TOO_HUNGRY)
    if isinstance(exception, sqlite3.OperationalError):
        return Mistake(status=400, title="Invalid SQL", message=str(exception))
    message = _find_bad_argument(exception, request)
    if message is not None:
        return Mistake(status=400, title="Invalid request", message=message)
    logger.error("datasette could not answer a request", exc_info=exception)
    return Mistake(status=500, title="Server error", message="This page could not be shown.")


def _describe_told(error: DatasetteError) -> Mistake:
    cause = error.__context__
    if isinstance(cause, QueryInterrupted):  # told with a script in it, and where the setting is
        return Mistake(status=400, title="Query timed out", message=_TOO_SLOW, sql=cause.sql)
    status = 400 if error.status >= 500 else error.status
    return Mistake(
        status=status, title=error.title or "Invalid request", message=str(error.message)
    )


def _describe_refusal(error: Base400) -> Mistake:
    if error.status == 404:
        return Mistake(status=404, title="Not found", message="There is no such page or row.")
    if error.status == 403:
        return Mistake(status=403, title="Not allowed", message="This cannot be shown.")
    return Mistake(status=400, title="Invalid request", message=str(error))


def _find_bad_argument(exception: Exception, request: Request) -> str | None:
    """Return what of the request made Datasette fail; None if the fault is ours. What can be told
    without knowing the table is refused before (see arguments)."""
    if isinstance(exception, RecursionError):
        return "Something here is nested too deeply."
    if isinstance(exception, OverflowError):
        return "A number here is larger than SQLite can hold."
    place = request.args.get("_next")
    if isinstance(exception, ValueError) and place and not arguments.is_number(place):
        return f"_next has to be what the link to the next page had; it is {place[:_MAX_SHOWN]!r}."
    if isinstance(exception, json.JSONDecodeError):
        return f"This ought to be JSON: {exception.doc[:_MAX_SHOWN]}"
    if request.path.endswith(".blob"):
        return "There is nothing here that can be downloaded."
    if request.path == "/traces.csv" and not request.args.get("sql"):
        return "Name a table (/traces/usage.csv), or a query (?sql=)."
    return None
