"""Checks of the proxy endpoints that options name, so that a mistyped name is an error."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from manage.api import endpoint_operations, usage_operations
from manage.cli.backend import Backend, call_for_all
from manage.cli.console import BackendError
from runtime.errors import NotFoundError
from store.control.endpoints import make_not_found


def list_slugs(backend: Backend) -> list[str]:
    """Return the slugs of the proxy endpoints. Raises as ``Backend.call`` does."""
    return [each.slug for each in call_for_all(backend, endpoint_operations.list_endpoints).items]


def check_slugs(backends: Sequence[Backend], slugs: Collection[str]) -> None:
    """Raise NotFoundError unless each slug is that of a proxy endpoint, or of a deleted one with calls.

    Also raises what ``Backend.call`` raises."""
    if not slugs:
        return
    known = {slug for backend in backends for slug in list_slugs(backend)}
    if not known.issuperset(slugs):
        known |= {slug for backend in backends for slug, _ in _list_used(backend)}
    for slug in slugs:
        if slug not in known:
            raise make_not_found(slug, sorted(known))


def check_endpoint(backend: Backend, id_or_slug: str) -> None:
    """Raise NotFoundError unless this is an existing proxy endpoint, or a deleted one with calls.

    Also raises what ``Backend.call`` raises."""
    live = call_for_all(backend, endpoint_operations.list_endpoints).items
    if any(id_or_slug in (each.id, each.slug) for each in live):
        return
    used = _list_used(backend)
    if not any(id_or_slug in names for names in used):
        known = {*(each.slug for each in live), *(slug for slug, _ in used)}
        raise make_not_found(id_or_slug, sorted(known))


@contextmanager
def suggesting_endpoints(backend: Backend, id_or_slug: str | None) -> Iterator[None]:
    """Have a NotFoundError raised in the block name the endpoint, and suggest similar slugs.

    The error of a remote service does not name it. Other errors pass unchanged."""
    try:
        yield
    except NotFoundError:
        if id_or_slug is not None:
            with suppress(BackendError):
                check_endpoint(backend, id_or_slug)
        raise


def _list_used(backend: Backend) -> list[tuple[str, str]]:
    """Return (slug, id) of each proxy endpoint that has calls, deleted ones included."""
    usage = backend.call(usage_operations.get_usage, by="endpoint")
    return [(group.slug or "", group.proxy_endpoint_id or "") for group in usage.groups]
