"""Replacements for functions of mitmproxy that look into headers again and again, with less work.

They are for ``python -m addon`` alone, and change nothing of what is sent, refused or given to a hook.
"""

import re
import string
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

from mitmproxy import http
from mitmproxy.net.http import validate

# Of these names the lower case is remembered: those that are looked up are few.
MOST_NAMES = 1024
# Requests, and responses to them, of which a length is the size of the body.
_USUAL = frozenset({(b"POST", None), (b"POST", 200)})
_NAME_BYTES = b"!#$%&'*+.^_`|~-" + (string.digits + string.ascii_lowercase).encode()
_LENGTH = re.compile(rb"[1-9][0-9]{0,17}")

type GetAll = Callable[[http.Headers, str | bytes], list[str]]
type BodySize = Callable[[http.Request, http.Response | None], int | None]


def index_headers(_original: GetAll, _given: None) -> GetAll:
    """Return a ``Headers.get_all`` that looks names up in an index, which is made once for each message."""

    def get_all(self: http.Headers, name: str | bytes) -> list[str]:
        values = _index(self).get(_lower(name), ())
        return [value.decode("utf-8", "surrogateescape") for value in values]

    return get_all


type Get = Callable[[http.Headers, str | bytes, str | None], str | None]


def get_by_index(_original: Get, _given: None) -> Get:
    """Return a ``Headers.get`` without the KeyError of ``__getitem__`` for a header that is not there."""

    def get(self: http.Headers, key: str | bytes, default: str | None = None) -> str | None:
        values = _index(self).get(_lower(key))
        if values is None:
            return default
        return ", ".join([value.decode("utf-8", "surrogateescape") for value in values])

    return get


type Contains = Callable[[http.Headers, str | bytes], bool]


def contain_by_index(_original: Contains, _given: None) -> Contains:
    """Return a ``Headers.__contains__`` that needs no KeyError either."""

    def contains(self: http.Headers, key: str | bytes) -> bool:
        return _lower(key) in _index(self)

    return contains


type Make = Callable[..., None]


def make_of_fields(original: Make, _given: None) -> Make:
    """Return a ``Headers.__init__`` that takes fields in one pass."""

    def make(self: http.Headers, fields: Iterable[tuple[bytes, bytes]] = (), **named: str) -> None:
        if named:
            original(self, fields, **named)
            return
        given: tuple[tuple[Any, Any], ...] = tuple([(name, value) for name, value in fields])
        for name, value in given:
            if not isinstance(name, bytes) or not isinstance(value, bytes):
                raise TypeError("Header fields must be bytes.")
        self.fields = given

    return make


type Index = dict[bytes, tuple[bytes, ...]]


def _index(headers: http.Headers) -> Index:
    """Return the values by name in lower case, which hold for as long as the fields are the same."""
    fields = headers.fields
    known = headers.__dict__.get("_taximeter_index")
    if known is not None and known[0] is fields:
        index: Index = known[1]
        return index
    index = _make_index(fields)
    headers.__dict__["_taximeter_index"] = (fields, index)
    return index


def _make_index(fields: Sequence[tuple[bytes, bytes]]) -> Index:
    index: Index = {}
    for name, value in fields:
        lower = name.lower()
        index[lower] = (*index[lower], value) if lower in index else (value,)
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
        size = _find_usual_size(headers, key)
        if size is None:
            size = original(request, response)
        headers.__dict__["_taximeter_size"] = (headers.fields, key, size)
        return size

    return expected_http_body_size


def _find_usual_size(headers: http.Headers, key: tuple[bytes, int | None]) -> int | None:
    """Return the size that a usual message states, or None for any other message."""
    index = _index(headers)
    lengths = index.get(b"content-length", ())
    if key not in _USUAL or len(lengths) != 1 or b"transfer-encoding" in index:
        return None
    return int(lengths[0]) if _LENGTH.fullmatch(lengths[0]) else None


type Validate = Callable[[http.Message], None]


def validate_by_index(original: Validate, _given: None) -> Validate:
    """Return a ``validate_headers`` that looks at all names at once."""

    def validate_headers(message: http.Message) -> None:
        index = _index(message.headers)
        lengths = index.get(b"content-length", ())
        if b"transfer-encoding" in index or len(lengths) > 1 or not _are_names(index):
            original(message)
        elif lengths:
            validate.parse_content_length(lengths[0])

    return validate_headers


def _are_names(names: Collection[bytes]) -> bool:
    return b"" not in names and not b"".join(names).translate(None, _NAME_BYTES)
