"""The judgement of a case by what the upstream saw, what was recorded, and what the client was told."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.hostile.framing import Framing
from tests.live.service import Row, body_bytes
from tests.upstream import Script, SeenRequest, head, message_json

_HEAD = re.compile(
    rb"[A-Z]+ /[!-~]* HTTP/1\.1\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[^\x00-\x08\x0a-\x1f\x7f]*\r\n)+\r\n"
)
_BETWEEN_HOPS = {
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "proxy-connection",
    "expect",
}
_STATUS = re.compile(rb"HTTP/1\.1 ([2-5]\d\d) [^\r\n]*\r\n")


def respond(_seen: SeenRequest) -> Script:
    """Return a script whose response tells which request it belongs to, once its body is there."""
    return Script((_make_response,))


def _make_response(seen: SeenRequest) -> bytes:
    body = response_to(bytes(seen.body))
    return (
        head(200, [("content-type", "application/json"), ("content-length", str(len(body)))]) + body
    )


def response_to(body: bytes) -> bytes:
    """Return the body of the response to a request with this body."""
    return message_json(hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The outcome of a case. ``received`` is all that its client got, ``seen`` what the upstream saw,
    ``faults`` what it could not read."""

    received: bytes
    seen: Sequence[SeenRequest]
    faults: Sequence[str]


def find_flaw(seen: SeenRequest) -> str | None:
    """Return what is wrong with a request that reached the upstream, read as strictly as can be."""
    if _HEAD.fullmatch(seen.head) is None:
        return f"its head is not valid: {seen.head!r}"
    names = [name.lower() for name, _ in seen.headers]
    if names.count("host") != 1:
        return "it has not one host"
    if between := _BETWEEN_HOPS.intersection(names):
        return f"it has headers of another hop: {between}"
    lengths = seen.header_values("content-length")
    codings = [coding.lower() for coding in seen.header_values("transfer-encoding")]
    if len(lengths) + len(codings) > 1:
        return "it is framed in two ways"
    if any(re.fullmatch("[0-9]+", length, re.ASCII) is None for length in lengths):
        return "its length is no number"
    if codings not in ([], ["chunked"]):
        return f"its transfer coding is {codings}"
    return None if seen.whole.is_set() else "it is not whole"


def find_harm(case: Framing, evidence: Evidence, rows: Sequence[Row]) -> str | None:
    """Return how a case did harm, or None: what the upstream saw are well-formed requests that may
    arrive, each equal to what was recorded, and the client was told about the rest."""
    for fault in evidence.faults:
        return f"the upstream could not read it: {fault}"
    for seen in evidence.seen:
        if flaw := find_flaw(seen):
            return flaw
    arrived = [(bytes(seen.body), seen.target) for seen in evidence.seen]
    bodies = tuple(body for body, _ in arrived)
    if bodies != case.may_arrive[: len(bodies)]:
        return f"these bodies arrived: {bodies}"
    recorded = [(body_bytes(row["request_body"]) or b"", row["path_query"]) for row in rows]
    if list(map(_without_query, recorded)) != list(map(_without_query, arrived)):
        return f"{arrived} arrived, and {recorded} were recorded"
    return _find_silence(case, evidence.received, bodies)


def _without_query(request: tuple[bytes, str]) -> tuple[bytes, str]:
    """Return body and path: what is recorded of queries has no values, which may be credentials."""
    return request[0], request[1].partition("?")[0]


def find_statuses(received: bytes) -> list[int]:
    """Return the statuses of the responses that a client got."""
    return [int(status) for status in _STATUS.findall(received)]


def _find_silence(case: Framing, received: bytes, arrived: tuple[bytes, ...]) -> str | None:
    """Return what the client was not told, or wrongly."""
    position = 0
    for body in arrived:
        position = received.find(response_to(body), position)
        if position < 0:
            return f"no response to {body!r}, or not in its place"
    if case.stalls or arrived == case.may_arrive != ():
        return None
    statuses = find_statuses(received)
    if arrived and max(statuses, default=0) < 400:
        return None  # the connection ended after these
    if not statuses or statuses[-1] < 400:
        return f"it was not refused: {received[-300:]!r}"
    return None
