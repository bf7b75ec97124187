"""What a command asks of a service, wherever that is.

Answers are the API's documents. Here they are made from a data directory on this machine by the same
classes as the API's; ``manage.cli.remote`` has them from the API itself. So a command does not care, and
``--json`` prints the same either way.
"""

from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from typing import Any, Protocol

from manage.api.models import (
    ApiModel,
    CreatedKey,
    Done,
    Endpoint,
    EndpointPage,
    KeyPage,
    Run,
    Usage,
)
from runtime.settings import Settings, Streaming
from store.control.database import ControlDatabase
from store.control.endpoints import StreamingChange
from store.control.management import Management
from store.pagination import MAX_LIMIT, Listed, Page
from store.traces.usage_report import Grouping

type Document = dict[str, Any]


class Backend(Protocol):
    """Lists are whole: their document is that of a last page."""

    def list_endpoints(self) -> Document: ...

    def create_endpoint(
        self, name: str, slug: str | None, streaming: Streaming | None, *, metadata_only: bool
    ) -> Document: ...

    def update_endpoint(
        self,
        id_or_slug: str,
        *,
        name: str | None,
        streaming: StreamingChange | None,
        metadata_only: bool | None,
    ) -> Document: ...

    def delete_endpoint(self, id_or_slug: str) -> Document: ...

    def list_keys(self) -> Document: ...

    def create_key(self, name: str) -> Document: ...

    def delete_key(self, key_id: str) -> Document: ...

    def usage(self, by: Grouping, from_day: date | None, to_day: date | None) -> Document: ...

    def run_usage(self, run_id: str) -> Document: ...


class LocalBackend:
    """A data directory on this machine, as one of its users: the local user where none is named.

    Every method raises ControlError and sqlite3.Error."""

    def __init__(self, settings: Settings, control: ControlDatabase, email: str | None) -> None:
        self._management = Management.make(control, settings)
        # Who names a user acts for them, and is not them.
        self._caller = self._management.find_caller(email, is_operator=email is not None)
        self._endpoint_url = settings.endpoint_url

    def list_endpoints(self) -> Document:
        pages = _join_pages(partial(self._management.list_endpoints, self._caller, limit=MAX_LIMIT))
        return _document(EndpointPage.make(pages, self._endpoint_url))

    def create_endpoint(
        self, name: str, slug: str | None, streaming: Streaming | None, *, metadata_only: bool
    ) -> Document:
        endpoint = self._management.create_endpoint(
            self._caller, name, slug, streaming, metadata_only=metadata_only
        )
        return _document(Endpoint.make(endpoint, self._endpoint_url))

    def update_endpoint(
        self,
        id_or_slug: str,
        *,
        name: str | None,
        streaming: StreamingChange | None,
        metadata_only: bool | None,
    ) -> Document:
        endpoint = self._management.update_endpoint(
            self._caller, id_or_slug, name=name, streaming=streaming, metadata_only=metadata_only
        )
        return _document(Endpoint.make(endpoint, self._endpoint_url))

    def delete_endpoint(self, id_or_slug: str) -> Document:
        self._management.delete_endpoint(self._caller, id_or_slug)
        return _document(Done())

    def list_keys(self) -> Document:
        pages = _join_pages(partial(self._management.list_keys, self._caller, limit=MAX_LIMIT))
        return _document(KeyPage.make(pages))

    def create_key(self, name: str) -> Document:
        return _document(CreatedKey.make(*self._management.create_key(self._caller, name)))

    def delete_key(self, key_id: str) -> Document:
        self._management.delete_key(self._caller, key_id)
        return _document(Done())

    def usage(self, by: Grouping, from_day: date | None, to_day: date | None) -> Document:
        return _document(Usage.make(self._management.usage(self._caller, by, from_day, to_day)))

    def run_usage(self, run_id: str) -> Document:
        return _document(Run.make(self._management.run_usage(self._caller, run_id)))


def _join_pages[T: Listed](read: Callable[[str | None], Page[T]]) -> Page[T]:
    return Page(items=[item for page in _iter_pages(read) for item in page.items], next_cursor=None)


def _iter_pages[T: Listed](read: Callable[[str | None], Page[T]]) -> Iterator[Page[T]]:
    page = read(None)
    yield page
    while page.next_cursor is not None:
        page = read(page.next_cursor)
        yield page


def _document(model: ApiModel) -> Document:
    return model.model_dump(mode="json", by_alias=True)
