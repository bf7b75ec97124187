"""The filters of headers: an allow-list for requests, and removal of hop-by-hop headers from
responses.

Fields are (name, value) pairs of raw bytes in the order received; those that pass keep their case,
order and duplicates."""

import hmac
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import compress

from mitmproxy import http

from runtime.local_requests import parse_host

# Which headers pass is remembered for so many lists of names, of which a client sends the same few. Longer
# ones would fill the memory.
MOST_LISTS, MOST_LIST_BYTES = 256, 2048

type Fields = tuple[tuple[bytes, bytes], ...]
type Filter = Callable[[Fields], Fields]
type Index = dict[bytes, bytes]
"""The values of a head by name in lower case, those of several lines joined by commas."""

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
# Connection stays on responses: the HTTP layer reads it there to know whether it may reuse a
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
_BEARER = re.compile(rb"bearer\s+", re.IGNORECASE)


def index(fields: Fields) -> Index:
    """Return the values of header fields by lowercase name."""
    found = {name.lower(): value for name, value in fields}
    if len(found) < len(fields):
        found = {name: b",".join(get_all(fields, name)) for name in found}
    return found


def index_of(given: http.Headers) -> Index:
    """Return the index of a message's headers, cached until they are changed."""
    known: tuple[Fields, Index] | None = vars(given).get("index")
    if known is None or known[0] is not given.fields:
        known = vars(given)["index"] = given.fields, index(given.fields)
    return known[1]


class RequestFilter:
    """Selects the request headers that are forwarded, for one vendor and the operator's extra prefixes."""

    def __init__(self, vendor: str, extra_prefixes: Iterable[str] = ()) -> None:
        self._recall = lru_cache(MOST_LISTS)(self._judge_all)
        self._prefixes = (
            f"{vendor}-".encode(),
            *ALLOWED_PREFIXES,
            *(prefix.encode() for prefix in extra_prefixes),
        )

    def __call__(self, fields: Fields) -> Fields:
        names = tuple([name for name, _ in fields])
        is_usual = len(b"".join(names)) <= MOST_LIST_BYTES
        passed, may_nominate = (self._recall if is_usual else self._judge_all)(names)
        kept = tuple(compress(fields, passed))
        if not may_nominate:
            return kept
        nominated = _nominated(fields)
        return tuple(field for field in kept if field[0].lower() not in nominated)

    def _judge_all(self, names: tuple[bytes, ...]) -> tuple[list[bool], bool]:
        """Return whether each header passes, and whether there is a Connection header."""
        passed = [self._judge(name) for name in names]
        return passed, any(name.lower() == b"connection" for name in names)

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
    """Return the request headers of a client of a forward proxy that the upstream gets.

    These are all but hop-by-hop headers, those that ``connection`` names, ours, and those that would make
    the request another than the recorded one. ``transfer-encoding``, by which the body is sent, and
    ``connection: keep-alive``, which the HTTP layer sends in any case, stay."""
    dropped = HOP_BY_HOP - {b"transfer-encoding"} | REINTERPRETING
    nominated = _nominated(fields)
    return tuple(
        (name, value)
        for name, value in fields
        if ((lower := name.lower()) not in dropped | nominated and not lower.startswith(OURS))
        or (lower == b"connection" and value.strip().lower() == b"keep-alive")
    )


def find_fault(found: Index) -> str | None:
    """Return a description of what makes these headers ambiguous, or None."""
    coding = found.get(b"transfer-encoding")
    if coding is not None and coding.strip(b" \t").lower() != b"chunked":
        return "a transfer coding other than chunked"
    host = found.get(b"host")
    # Some load balancers probe with an empty one.
    if host and parse_host(host.decode("latin-1")) is None:
        return "a Host that is not one plain host or host:port"
    return None


def returned(fields: Fields, found: Index) -> Fields:
    """Return the response headers for the client, without hop-by-hop headers.

    Headers with our own names are dropped too: ours are added later, so that none can be forged."""
    if found.keys().isdisjoint(RESPONSE_DROPPED) and OURS not in b"".join(found):
        return fields  # as nearly always
    return tuple(
        field
        for field in fields
        if (name := field[0].lower()) not in RESPONSE_DROPPED and not name.startswith(OURS)
    )


def for_web(fields: Fields, client: bytes) -> Fields:
    """Return the request headers for the web process, with the client's address.

    Upstream credentials, hop-by-hop headers and an address sent by the client are left out."""
    dropped = (HOP_BY_HOP - {b"transfer-encoding"}) | {b"x-api-key", b"x-taximeter-client"}
    kept = tuple(field for field in fields if field[0].lower() not in dropped)
    return (*kept, (b"x-taximeter-client", client))


def find_credential(found: Index) -> bytes | None:
    """Return the upstream credential in the headers of a request, or None if there is none."""
    return (
        found.get(b"x-api-key")
        or _BEARER.sub(b"", found.get(b"authorization", b""), count=1)
        or None
    )


def fingerprint(credential: bytes, key: bytes, organization_id: str) -> str:
    """Return a keyed fingerprint of the upstream credential, by which calls are grouped.

    It holds no character of the credential, and without the key nobody can test a guess against it.
    The organisation is part of the hash, so that two organisations that share a credential cannot find
    that out by comparing."""
    # No organization id holds a NUL, so no two pairs make the same text.
    keyed = _begin(key).copy()
    keyed.update(organization_id.encode() + b"\0" + credential)
    return keyed.hexdigest()[:32]


@lru_cache(2)
def _begin(key: bytes) -> hmac.HMAC:
    """Return the HMAC with only the key fed in. This is cached: it is half of the work for a short text."""
    return hmac.new(key, digestmod="sha256")


def get_all(fields: Fields, name: bytes) -> list[bytes]:
    """Return all values of a header. ``name`` is lowercase."""
    length = len(name)
    return [value for field, value in fields if len(field) == length and field.lower() == name]


def with_host(fields: Fields, host: bytes) -> Fields:
    """Return the headers with the value of Host replaced, at its place."""
    changed, is_there = [], False
    for field in fields:
        name = field[0]
        if len(name) == 4 and name.lower() == b"host":
            is_there = True
            changed.append((name, host))
        else:
            changed.append(field)
    return tuple(changed) if is_there else ((b"host", host), *fields)


def declared_bytes(found: Index) -> int:
    """Return the Content-Length, 0 if there is none. ``http1`` has checked that it is a number."""
    return int(found.get(b"content-length") or 0)


def is_event_stream(found: Index) -> bool:
    """Return whether a response is a stream of server-sent events."""
    content_type = found.get(b"content-type", b"")
    return content_type.partition(b";")[0].strip().lower() == b"text/event-stream"


def announces_body(found: Index) -> bool:
    """Return whether these headers say that a body follows."""
    return b"transfer-encoding" in found or declared_bytes(found) > 0


def _nominated(fields: Fields) -> frozenset[bytes]:
    """Return the headers that the client declares to be hop-by-hop in Connection.

    Headers in ``ALLOWED`` are excepted, so that credentials and framing cannot be removed that way."""
    values = get_all(fields, b"connection")
    return (
        frozenset(token.strip().lower() for value in values for token in value.split(b","))
        - ALLOWED
    )
