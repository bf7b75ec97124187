"""Errors as the pages and the JSON of the trace browser report them.

Errors caused by the caller are 4xx with a message; Datasette makes many of them 500. Errors of the
server are logged, without details in the response, since the text of an exception may contain paths.
"""

import json
import logging
import sqlite3
from dataclasses import dataclass

from dashboard.tables import arguments
from dashboard.tables.lean_datasette import Base400, DatasetteError, QueryInterrupted, Request

_MAX_SHOWN = 200
OUT_OF_MEMORY = "The query needs more memory than there is. Ask for fewer or shorter values."
_TIMED_OUT = (
    "The query took too long and was stopped. Where it is quick otherwise, the machine is busy: try again"
    " in a moment. If not, narrow it: add a condition on id or created_at, use fewer facets, or query"
    " usage_hourly for totals over a long time."
)

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class RequestState:
    """The state of a request that Datasette and our code share, as ``taximeter`` in its scope."""

    is_for_program: bool
    is_explained: bool = False  # an error was put in words that may be shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetails:
    """The reported details of an error. ``status`` is the HTTP status; ``sql`` is the query that caused
    it."""

    status: int
    title: str
    message: str
    sql: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return these details in the format of Datasette's errors."""
        return {
            "ok": False,
            "error": self.message,
            "status": self.status,
            "title": self.title,
        }


def describe(exception: Exception, request: Request) -> ErrorDetails:
    """Return the details to report of an exception. An error that the caller did not cause is logged."""
    if isinstance(exception, QueryInterrupted):
        return _describe_timeout(exception)
    if isinstance(exception, DatasetteError):
        return _describe_datasette_error(exception)
    if isinstance(exception, Base400):
        return _describe_bad_request(exception)
    if isinstance(exception, MemoryError):
        return ErrorDetails(status=400, title="Too large", message=OUT_OF_MEMORY)
    if isinstance(exception, sqlite3.OperationalError):
        return ErrorDetails(status=400, title="Invalid SQL", message=str(exception))
    message = _find_bad_argument(exception, request)
    if message is not None:
        return ErrorDetails(status=400, title="Invalid request", message=message)
    logger.error("Datasette failed on a request", exc_info=exception)
    return ErrorDetails(status=500, title="Server error", message="This page could not be shown.")


def _describe_timeout(error: QueryInterrupted) -> ErrorDetails:
    return ErrorDetails(status=400, title="Query timed out", message=_TIMED_OUT, sql=error.sql)


def _describe_datasette_error(error: DatasetteError) -> ErrorDetails:
    cause = error.__context__
    if isinstance(cause, QueryInterrupted):  # its message has a script in it, and names the setting
        return _describe_timeout(cause)
    status = 400 if error.status >= 500 else error.status
    return ErrorDetails(
        status=status, title=error.title or "Invalid request", message=str(error.message)
    )


def _describe_bad_request(error: Base400) -> ErrorDetails:
    if error.status == 404:
        return ErrorDetails(status=404, title="Not found", message="There is no such page or row.")
    if error.status == 403:
        return ErrorDetails(status=403, title="Not allowed", message="This cannot be shown.")
    return ErrorDetails(status=400, title="Invalid request", message=str(error))


def _find_bad_argument(exception: Exception, request: Request) -> str | None:
    """Return which part of the request made Datasette fail, as a sentence.

    None for an error of the server. Arguments that are invalid for every table were refused before (see
    ``arguments``)."""
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
