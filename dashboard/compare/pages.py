"""``/traces/usage/<id>/compare/<id>``: the page that compares two calls.

``…/compare?with=<id>`` redirects there, with the earlier call first, and so does
``/traces/compare?call=<id>&call=<id>``, which the checkboxes of a list send. Entry ids work instead of
row ids. The page is rendered in a query process (``page``).
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard.addresses import CALL_ID, ENTRY_ID, raw_path, row_address
from dashboard.call.lookup import find_id
from dashboard.rendering import PRIVATE
from dashboard.site import Site
from dashboard.trace_work import TraceWork
from store.control.people import Caller
from store.traces.calls.call_reader import CallReader

_ID = f"{CALL_ID}|{ENTRY_ID}"
_ADDRESS = re.compile(rf"/traces/usage/({_ID})/compare(?:/({_ID}))?")
_TICKED = "/traces/compare"
_ONE_ID = re.compile(_ID)
_NO_ID = "Enter the id of a call: a number as in the address of its page, or the id of its entry."
_NOT_TWO = "Tick two calls in the list of traces, then compare them."


@dataclass(frozen=True, slots=True)
class CompareAddress:
    """The ids of the calls in an address, as texts. If ``second`` is None, the query of the request has
    it."""

    first: str
    second: str | None


def find_address(path: str) -> CompareAddress | None:
    """Parse the path of a comparison; None for any other path."""
    found = _ADDRESS.fullmatch(path)
    return None if found is None else CompareAddress(found[1], found[2])


class ComparePages:
    """The pages that compare two calls of the caller's organisation."""

    def __init__(self, site: Site) -> None:
        self._work = TraceWork(site)
        self._forwarding = site.forwarding

    async def respond(self, request: Request, caller: Caller) -> Response | None:
        """Return the page or a redirect to it, or None if the address is not of a comparison.

        Raises HTTPException, sqlite3.Error."""
        path = raw_path(request.scope)
        if path == _TICKED:
            one, other = _read_ticked(request)
            return await self._work.run_on_calls(
                caller, lambda reader: _redirect(reader, one, other)
            )
        address = find_address(path)
        if address is None:
            return None
        if address.second is None:
            other = _read_other(request)
            return await self._work.run_on_calls(
                caller, lambda reader: _redirect(reader, address.first, other)
            )
        calls = {"first": address.first, "second": address.second}
        return self._forwarding.respond(request, caller, "compare", calls)


def _read_other(request: Request) -> str:
    """Return the id in the query argument ``with``. Raises HTTPException."""
    query = parse_qs(request.scope["query_string"].decode("latin-1"))
    other: str = query.get("with", [""])[0].strip()
    if not _ONE_ID.fullmatch(other):
        raise HTTPException(400, _NO_ID)
    return other


def _read_ticked(request: Request) -> tuple[str, str]:
    """Return the ids of the two calls whose checkboxes were ticked. Raises HTTPException."""
    ids = parse_qs(request.scope["query_string"].decode("latin-1")).get("call", [])
    if len(ids) != 2 or not all(map(_ONE_ID.fullmatch, ids)):
        raise HTTPException(400, _NOT_TWO)
    return ids[0], ids[1]


def _redirect(reader: CallReader, one: str, other: str) -> Response:
    first, second = sorted(find_id(reader, each) for each in (one, other))
    return RedirectResponse(f"{row_address(first)}/compare/{second}", 302, PRIVATE)
