"""``/settings/keys``: create service API keys, display each once, and delete them.

A raw key is only in the response to the form that created it: a redirect cannot carry it, since it must
not be in an address, a cookie or a store. Reloading that response submits the form again; the form is
recognised by its id, and creates no second key.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard.settings.people import PAGE
from dashboard.settings.view import PATH, PEOPLE, Reading, Sent, SettingsPage, SettingsView
from runtime.errors import ConflictError, ControlError, ForbiddenError, NotFoundError
from store.control.api_keys import ApiKey
from store.control.management import Management
from store.control.sessions import Visitor

FORM = "create-key"
_REMEMBERED = 10_000
_FORM_ID_LENGTH = 64  # ours are shorter; what somebody made up is not kept whole


def _make_form_id(_reading: Reading) -> Mapping[str, Any]:
    return {"form_id": secrets.token_urlsafe(16)}


def _read_key(reading: Reading) -> Mapping[str, Any]:
    """Return the key to be deleted. Raises NotFoundError, also if it belongs to another user."""
    try:
        return {"key": reading.management.get_key(reading.visitor, reading.id)}
    except ForbiddenError as error:
        raise NotFoundError("no such key") from error


NEW_PAGE = SettingsPage(
    part=PEOPLE, path="people/new-key", template="settings_create_key.html", read=_make_form_id
)
DELETE_PAGE = SettingsPage(
    part=PEOPLE, path="keys/{id}/delete", template="settings_delete_key.html", read=_read_key
)


def _delete(management: Management, sent: Sent) -> None:
    management.delete_key(sent.visitor, sent.id)


class KeySettings:
    def __init__(self, view: SettingsView) -> None:
        self._view = view
        self._done: OrderedDict[tuple[str, str], None] = OrderedDict()

    def routes(self) -> list[BaseRoute]:
        return [
            self._view.route(NEW_PAGE),
            self._view.route(DELETE_PAGE),
            Route(f"{PATH}/keys", self.create, methods=["POST"]),
            self._view.form("keys/{id}/delete", _delete, PAGE, "key-deleted"),
        ]

    async def create(self, request: Request) -> Response:
        sent = await self._view.read_form(request)
        try:
            key, raw = await self._create(sent.visitor, sent.fields)
        except ControlError as error:
            return await self._view.refuse(request, sent, error, NEW_PAGE, FORM)
        return self._view.show(
            sent.visitor,
            PEOPLE,
            "settings_new_key.html",
            201,
            key=key,
            raw_key=raw,
        )

    async def _create(self, visitor: Visitor, form: Mapping[str, str]) -> tuple[ApiKey, str]:
        """Create a key and return it with its raw text.

        Raises InvalidInputError, and ConflictError if the form was submitted before."""
        name = form.get("name", "")
        form_id = (visitor.user_id, form.get("form_id", "")[:_FORM_ID_LENGTH])
        if form_id in self._done:
            raise ConflictError(
                "this form was sent before, and its key was shown then; no other was created"
            )
        if form_id[1]:
            self._done[form_id] = None  # before it is, or a second click could come in between
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        try:
            return await self._view.pool.run(
                lambda control: self._view.manage(control).create_key(visitor, name)
            )
        except BaseException:
            self._done.pop(form_id, None)
            raise
