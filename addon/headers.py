"""The filters of headers: requests by an allow-list, responses without what is between hops.

Fields are (name, value) pairs of raw bytes in the order received; what passes keeps its case, its
order and its duplicates.
"""

import hmac
import re
import string
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from runtime.local_requests import parse_host

# Whether a header passes is remembered for so many names, of which clients use the same few. It follows
# from so many bytes of a name; longer ones would fill the memory.
MOST_NAMES, DECIDING_BYTES = 2048, 256

type Fields = tuple[tuple[bytes, bytes], ...]
type Filter = Callable[[Fields], Fields]

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer"
    b" transfer-encoding upgrade".split()
)
# A client can declare no header on this list to be between hops (see ``_nominated``). host and the
# framing headers are not optional: without framing a body becomes a second request.
ALLOWED = frozenset(
    b"x-api-key authorization user-agent accept accept-language accept-encoding x-app"
    b" x-client-request-id idempotency-key traceparent tracestate host content-length"
    b" transfer-encoding expect".split()
)
ALLOWED_PREFIXES = (b"x-sdk-", b"x-stainless-", b"x-claude-", b"content-")
# Connection stays on responses: the HTTP core reads it there to know whether it may reuse a
# connection, and a client has to hear that we close.
RESPONSE_DROPPED = (HOP_BY_HOP - {b"connection", b"transfer-encoding"}) | {b"alt-svc"}
OURS = b"x-taximeter-"
# By these some servers take a request for another one than it is routed, limited and logged as here.
REINTERPRETING = frozenset(
    b"x-http-method x-http-method-override x-method-override x-original-uri x-original-url"
    b" x-rewrite-url".split()
)
# Of a forward proxy: all headers of the request are meant for the upstream.
WANTED, ALL = OURS + b"headers", b"all"
FIELD = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\x00-\x08\x0a-\x1f\x7f]*+"
# The bytes that names and values are made of: what is left without them is found faster than by a pattern.
_NAME_BYTES = b"!#$%&'*+.^_`|~-" + (string.digits + string.ascii_letters).encode()
_VALUE_BYTES = bytes([byte for byte in range(256) if byte == 9 or 32 <= byte != 127])
_BEARER = re.compile(r"bearer\s+", re.IGNORECASE | re.ASCII)


class RequestFilter:
    """Selects the request headers that are forwarded, for one vendor and the operator's extra prefixes."""

    def __init__(self, vendor: str, extra_prefixes: Iterable[str] = ()) -> None:
        self._passes = lru_cache(MOST_NAMES)(self._judge)
        self._prefixes = (
            f"{vendor}-".encode(),
            *ALLOWED_PREFIXES,
            *(prefix.encode() for prefix in extra_prefixes),
        )

    def __call__(self, fields: Fields) -> Fields:
        passes = self._passes
        kept = tuple([field for field in fields if passes(field[0][:DECIDING_BYTES])])
        nominated = _nominated(fields)
        if not nominated:
            return kept
        return tuple(field for field in kept if field[0].lower() not in nominated)

    def _judge(self, name: bytes) -> bool:
        name = name.lower()
        if name in ALLOWED:
            return True
        return (
            name.startswith(self._prefixes)
            and name not in HOP_BY_HOP
            and name not in REINTERPRETING
            and not name.startswith((b"cookie", b"x-forwarded-", OURS))
        )


def keep_all(fields: Fields) -> Fields:
    """Return the request headers of a client that a forward proxy carries to the upstream: all but those
    between hops, those of ours, and those by which a request is another one than was recorded.

    ``connection: keep-alive`` stays, as the HTTP core sends it on whatever the client said."""
    dropped = HOP_BY_HOP - {b"transfer-encoding"} | REINTERPRETING
    nominated = _nominated(fields)
    return tuple(
        (name, value)
        for name, value in fields
        if ((lower := name.lower()) not in dropped | nominated and not lower.startswith(OURS))
        or (lower == b"connection" and value.strip().lower() == b"keep-alive")
    )


def find_fault(fields: Fields) -> str | None:
    """Return what makes these headers mean different things to different readers, or None.

    The HTTP core is lenient where RFC 9110 and 9112 are not: it joins folded lines, keeps the line
    break inside the value, and strips more than blanks around a transfer coding."""
    names, values = zip(*fields, strict=True) if fields else ((), ())
    if not all(names) or b"".join(names).translate(None, _NAME_BYTES):
        return "a header name with characters that no name has"
    if b"".join(values).translate(None, _VALUE_BYTES):
        return "a header value with control characters or a folded line"
    if any(not _is_chunked(value) for value in get_all(fields, b"transfer-encoding")):
        return "a transfer coding other than chunked"
    hosts = get_all(fields, b"host")
    # Some load balancers probe with an empty one.
    if len(hosts) > 1 or (any(hosts) and parse_host(hosts[0].decode("latin-1")) is None):
        return "a Host that is not one plain host or host:port"
    return None


def _is_chunked(coding: bytes) -> bool:
    return coding.strip(b" \t").lower() == b"chunked"


def returned(fields: Fields) -> Fields:
    """Return the response headers that go back to the client. Ours are added later: nobody may forge them."""
    kept = tuple([field for field in fields if _is_returned(field[0][:DECIDING_BYTES])])
    return (
        fields if len(kept) == len(fields) else kept
    )  # what is known of the same object still holds


@lru_cache(MOST_NAMES)
def _is_returned(name: bytes) -> bool:
    name = name.lower()
    return name not in RESPONSE_DROPPED and not name.startswith(OURS)


def for_web(fields: Fields, client: bytes) -> Fields:
    """Return what the web process gets: everything but upstream credentials and hop-by-hop headers,
    and the client's address, which nobody outside can set."""
    dropped = (HOP_BY_HOP - {b"transfer-encoding"}) | {b"x-api-key", b"x-taximeter-client"}
    kept = tuple(field for field in fields if field[0].lower() not in dropped)
    return (*kept, (b"x-taximeter-client", client))


def find_credential(named: Mapping[bytes, str]) -> bytes | None:
    """Return the upstream credential in headers that ``by_name`` returned, or None without one."""
    credential = named.get(b"x-api-key")
    if not credential:
        credential = _BEARER.sub("", named.get(b"authorization") or "", count=1)
    return credential.encode("latin-1") or None


def fingerprint(credential: bytes, key: bytes, organization_id: str) -> str:
    """Return a keyed fingerprint of the upstream credential to group calls by.

    It holds no character of the credential, and without the key nobody can test a guess against it.
    The organisation is part of what is hashed: two organisations that share a credential cannot
    find that out by comparing."""
    # No organization id holds a NUL, so no two pairs make the same text.
    keyed = _begin(key).copy()
    keyed.update(organization_id.encode() + b"\0" + credential)
    return keyed.hexdigest()[:32]


@lru_cache(2)
def _begin(key: bytes) -> hmac.HMAC:
    """Return what only depends on the key, which is half of the work for a short text."""
    return hmac.new(key, digestmod="sha256")


def get(fields: Fields, name: bytes) -> bytes | None:
    """Return the first value of a header, or None. ``name`` is lowercase."""
    length = len(name)
    for field, value in fields:
        if len(field) == length and field.lower() == name:
            return value
    return None


def get_all(fields: Fields, name: bytes) -> list[bytes]:
    """Return all values of a header. ``name`` is lowercase."""
    length = len(name)
    return [value for field, value in fields if len(field) == length and field.lower() == name]


def with_host(fields: Fields, host: bytes) -> Fields:
    """Return the headers with another host, at the place of the one that is there."""
    changed, is_there = [], False
    for field in fields:
        name = field[0]
        if len(name) == 4 and name.lower() == b"host":
            is_there = True
            changed.append((name, host))
        else:
            changed.append(field)
    return tuple(changed) if is_there else ((b"host", host), *fields)


def requests_close(fields: Fields, http_version: str) -> bool:
    """Return whether a client says that this is its last request on the connection."""
    tokens = [
        token.strip().lower()
        for value in get_all(fields, b"connection")
        for token in value.split(b",")
    ]
    if b"close" in tokens:
        return True
    return http_version != "HTTP/1.1" and b"keep-alive" not in tokens


def declared_bytes(fields: Fields) -> int:
    """Return how long a body the headers announce; 0 where they do not say. mitmproxy has checked that
    it is a number."""
    return int(get(fields, b"content-length") or 0)


def is_event_stream(fields: Fields) -> bool:
    """Return whether a response is a stream of server-sent events."""
    content_type = get(fields, b"content-type") or b""
    return content_type.partition(b";")[0].strip().lower() == b"text/event-stream"


def announces_body(fields: Fields) -> bool:
    """Return whether a body follows these headers."""
    return get(fields, b"transfer-encoding") is not None or declared_bytes(fields) > 0


def by_name(fields: Fields) -> dict[bytes, str]:
    """Return the first value of each header, by its lowercase name."""
    return {name.lower(): value.decode("latin-1") for name, value in reversed(fields)}


def _nominated(fields: Fields) -> frozenset[bytes]:
    """Return the headers that the client itself declares to be between hops. Credentials and framing
    cannot be made to vanish that way."""
    values = get_all(fields, b"connection")
    return (
        frozenset(token.strip().lower() for value in values for token in value.split(b","))
        - ALLOWED
    )
