"""The backend of a command: a data directory on this machine, or a remote service.

Both carry out the same operations of ``manage.api`` with the same responses and raise the same
errors of ``runtime.errors``, so commands and ``--json`` do not depend on which it is.
"""

from collections.abc import Mapping
from typing import Protocol

from manage.api.operation import Context, Operation
from manage.api.validation import validate
from manage.cli.console import BackendError
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.people import Caller
from store.json_models import ListResponse, PageQuery, RequestModel, ResponseModel
from store.pagination import MAX_LIMIT

ENDLESS = (
    "this is not Taximeter's API (a list without an end); check the address given with --base-url"
)


class Backend(Protocol):
    def call[Request: RequestModel, Response: ResponseModel](
        self, operation: Operation[Request, Response], id_: str = "", /, **fields: object
    ) -> Response:
        """Carry out an operation, on the object ``id_`` if its path has an id, and return the response.

        ``fields`` are those of the request, by their names in Python. Raises ControlError,
        BackendError."""


class LocalBackend:
    """A data directory on this machine, accessed on behalf of one of its users.

    Methods also raise sqlite3.Error."""

    def __init__(self, settings: Settings, control: ControlDatabase, caller: Caller) -> None:
        self._management = Management.make(control, settings)
        self._caller = caller
        self._endpoint_url = settings.endpoint_url

    def call[Request: RequestModel, Response: ResponseModel](
        self, operation: Operation[Request, Response], id_: str = "", /, **fields: object
    ) -> Response:
        return operation.run(
            Context(
                management=self._management,
                caller=self._caller,
                endpoint_url=self._endpoint_url,
                id=id_,
                request=validate(operation.request, fields, by_name=True),
            )
        )


def call_for_all[Response: ListResponse](
    backend: Backend, operation: Operation[PageQuery, Response]
) -> Response:
    """Return all pages of a list as one response without a next page. Raises as ``Backend.call`` does."""
    items: list[ResponseModel] = []
    seen: set[str] = set()
    page = backend.call(operation, limit=MAX_LIMIT)
    items += page.items
    while page.next_cursor:
        if page.next_cursor in seen:
            raise BackendError(ENDLESS)
        seen.add(page.next_cursor)
        page = backend.call(operation, cursor=page.next_cursor, limit=MAX_LIMIT)
        items += page.items
    return page.model_copy(update={"items": items})


def given(**options: object) -> Mapping[str, object]:
    """Return the options whose value is not None."""
    return {name: value for name, value in options.items() if value is not None}
