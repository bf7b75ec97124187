"""Proxy endpoints for tests that have no caller and want no audit log."""

from runtime.settings import Streaming
from store.control import endpoints
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint


def create_endpoint(
    control: ControlDatabase,
    organization_id: str,
    name: str,
    slug: str | None = None,
    streaming: Streaming | None = None,
) -> ProxyEndpoint:
    with control.transaction() as db:
        return endpoints.create(db, organization_id, name, slug, streaming)


def delete_endpoint(
    control: ControlDatabase, organization_id: str, id_or_slug: str
) -> ProxyEndpoint:
    with control.transaction() as db:
        return endpoints.delete(db, organization_id, id_or_slug)
