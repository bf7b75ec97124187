"""``/labels`` and ``/notes``: the addresses that forms on pages of sessions and calls are sent to.

Their markup is in ``_annotations.html``. The response redirects to the page of the session or call after
the recorder has written the change, so that the page shows it.
"""

from asyncio import get_running_loop, sleep
from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import rendering
from dashboard.addresses import HOME, call_address, session_address
from dashboard.forms import read_form
from dashboard.visitors import ControlPool, Visitors
from runtime.settings import Settings
from store.annotation_rules import Kind, parse_kind
from store.control.annotation_management import AnnotationManagement
from store.control.annotation_orders import AnnotationOrder
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.sessions import Visitor

# The recorder writes it within a fifth of a second, unless it is busy or away.
PATIENCE_S, POLL_S = 2.0, 0.05

type Fields = Mapping[str, str]
type Order = Callable[[AnnotationManagement, Visitor, Kind, Fields], AnnotationOrder]


class AnnotationPages:
    """The handlers of the forms for labels and notes."""

    def __init__(self, settings: Settings, pool: ControlPool, visitors: Visitors) -> None:
        self._settings = settings
        self._pool = pool
        self._visitors = visitors

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/labels", self.change_label, methods=["POST"]),
            Route("/notes", self.change_note, methods=["POST"]),
        ]

    async def change_label(self, request: Request) -> Response:
        """Add the label in the form field ``label``, or remove the one in ``remove``. Redirects to its
        page."""
        return await self._order(request, _change_label)

    async def change_note(self, request: Request) -> Response:
        """Replace the note by the form field ``text``; an empty text removes the note. Redirects to its
        page."""
        return await self._order(request, _change_note)

    async def _order(self, request: Request, order: Order) -> Response:
        """Place an order for the recorder, wait for it, and redirect to the page of the session or call.

        Raises HTTPException, NotSignedInError, ControlError, sqlite3.Error."""
        form = await read_form(request, self._settings.base_url)
        visitor = await self._visitors.require(request)
        kind = parse_kind(form.get("kind", ""))

        def place(control: ControlDatabase) -> AnnotationOrder:
            return order(self._manage(control), visitor, kind, form)

        await self._wait(await self._pool.run(place))
        return rendering.redirect(_find_page(kind, form.get("id", "")))

    async def _wait(self, order: AnnotationOrder) -> None:
        """Wait until the recorder has carried out an order, ``PATIENCE_S`` seconds at most."""
        loop = get_running_loop()
        ends_at_s = loop.time() + PATIENCE_S
        while await self._pool.run(lambda control: self._manage(control).is_open(order)):
            if loop.time() >= ends_at_s:
                return
            await sleep(POLL_S)

    def _manage(self, control: ControlDatabase) -> AnnotationManagement:
        return Management.make(control, self._settings).annotations


def _find_page(kind: Kind, id_: str) -> str:
    if kind == "session":
        return session_address(id_)
    return call_address(int(id_)) if id_.isdecimal() else HOME


def _change_label(
    management: AnnotationManagement, visitor: Visitor, kind: Kind, form: Fields
) -> AnnotationOrder:
    id_ = form.get("id", "")
    if "remove" in form:
        return management.remove_label(visitor, kind, id_, form["remove"])
    return management.add_label(visitor, kind, id_, form.get("label", ""))


def _change_note(
    management: AnnotationManagement, visitor: Visitor, kind: Kind, form: Fields
) -> AnnotationOrder:
    id_, text = form.get("id", ""), form.get("text", "")
    if not text.strip():
        return management.remove_note(visitor, kind, id_)
    return management.write_note(visitor, kind, id_, text)
