"""The rendering of pages of recorded text in a query process, by the name of the page."""

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import Response

from dashboard import rendering
from dashboard.call import pages as call_pages
from dashboard.call.lookup import NO_CALL
from dashboard.call.texts import highlighting
from dashboard.compare import page as compare_page
from dashboard.context import page as context_page, session_page
from dashboard.export import words as export_words
from dashboard.kept_connections import KeptConnections
from dashboard.queries.page_request import PageName, PageRequest
from dashboard.replay import page as replay_page
from dashboard.sessions import turn_part
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.call_reader import CallReader
from store.traces.paths import trace_path_in

_UNREADABLE = "This cannot be read right now. Try again in a moment."
_TOO_LARGE = "This page takes too much memory to make. Download the bodies of the call instead."

type _Render = Callable[[PageRequest, CallReader], Response]

_OF_CALLS: Mapping[PageName, _Render] = {
    "call": call_pages.render,
    "compare": compare_page.render,
    "context": context_page.render,
    "export": export_words.render,
    "replay": replay_page.render,
    "turn": turn_part.render,
}


def load_pages() -> None:
    """Load templates and lexers for the most used pages, so that forks of this process share them."""
    rendering.load_templates([*call_pages.TEMPLATES, turn_part.TEMPLATE])
    highlighting.load_lexers()


class PageRenderer:
    """Renders pages from the trace databases in a folder."""

    def __init__(self, traces: Path) -> None:
        self._traces = traces
        self._connections = KeptConnections()

    def close(self) -> None:
        """Close the connections that are open to databases."""
        self._connections.close()

    def render(self, page: PageRequest, body: bytes) -> Response:
        """Return a page, or an error page. ``body`` is the body of the HTTP request."""
        path = trace_path_in(self._traces, page.caller.organization_id)
        try:
            if not path.exists():
                return _render(page, None, body)
            with self._connections.lend(path) as connection:
                return _render(page, connection, body)
        except HTTPException as error:
            return page.refuse(error.status_code, error.detail)
        except (sqlite3.Error, MissingPieceError):
            return page.refuse(503, _UNREADABLE)
        except MemoryError:
            return page.refuse(503, _TOO_LARGE)


def _render(page: PageRequest, connection: sqlite3.Connection | None, body: bytes) -> Response:
    if page.name == "session_context":
        return session_page.render_session(page, connection)
    if connection is None:
        raise HTTPException(404, NO_CALL)
    reader = CallReader(connection)
    if page.name == "replay_check":
        return replay_page.check(page, reader, body)
    return _OF_CALLS[page.name](page, reader)
