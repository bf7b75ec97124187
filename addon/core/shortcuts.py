"""Replacements for functions of the core that do the same with less work.

They are for ``python -m addon`` alone, and change nothing of what is sent, refused or given to a hook.
"""

from collections.abc import Callable
from functools import lru_cache

from mitmproxy import http
from mitmproxy.proxy import context

# Of these names the lower case is remembered: those that are looked up are few.
MOST_NAMES = 1024

type GetAll = Callable[[http.Headers, str | bytes], list[str]]
type BodySize = Callable[[http.Request, http.Response | None], int | None]
type Fork = Callable[[context.Context], context.Context]


def index_headers(_original: GetAll, _given: None) -> GetAll:
    """Return a ``Headers.get_all`` that makes the names of a message lower case once."""

    def get_all(self: http.Headers, name: str | bytes) -> list[str]:
        values = _index(self).get(_lower(name), ())
        return [value.decode("utf-8", "surrogateescape") for value in values]

    return get_all


def _index(headers: http.Headers) -> dict[bytes, list[bytes]]:
    """Return the values by name in lower case, which hold for as long as the fields are the same."""
    fields = headers.fields
    known = headers.__dict__.get("_taximeter_index")
    if known is not None and known[0] is fields:
        index: dict[bytes, list[bytes]] = known[1]
        return index
    index = {}
    for name, value in fields:
        index.setdefault(name.lower(), []).append(value)
    headers.__dict__["_taximeter_index"] = (fields, index)
    return index


@lru_cache(MOST_NAMES)
def _lower(name: str | bytes) -> bytes:
    raw = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    return raw.lower()


def remember_body_size(original: BodySize, _given: None) -> BodySize:
    """Return an ``expected_http_body_size`` that reads a message once, until it changes."""

    def expected_http_body_size(
        request: http.Request, response: http.Response | None = None
    ) -> int | None:
        headers = (response or request).headers
        status = response.data.status_code if response else None
        key = (request.data.method, status)
        known = headers.__dict__.get("_taximeter_size")
        if known is not None and known[0] is headers.fields and known[1] == key:
            remembered: int | None = known[2]
            return remembered
        size = original(request, response)
        headers.__dict__["_taximeter_size"] = (headers.fields, key, size)
        return size

    return expected_http_body_size


def fork_without_server(_original: Fork, _given: None) -> Fork:
    """Return a ``Context.fork`` that does not make a server connection, with an id, to drop it."""

    def fork(self: context.Context) -> context.Context:
        forked = object.__new__(context.Context)
        forked.client, forked.options, forked.server = self.client, self.options, self.server
        forked.layers = self.layers.copy()
        return forked

    return fork
