"""Sending the bytes of cases, collecting the evidence, and judging it."""

from collections.abc import Sequence
from contextlib import suppress

from tests.hostile.framing import Framing
from tests.hostile.witness import Evidence, find_harm, find_statuses, respond, response_to
from tests.live.conftest import make_new_endpoint
from tests.live.service import Service
from tests.rawclient import RawClient
from tests.upstream import PATIENCE_S, Upstream


def judge_all(
    service: Service, upstream: Upstream, cases: Sequence[Framing], *, in_bytes: bool = False
) -> dict[str, str]:
    """Send these cases, each to an endpoint of its own; return the harm of those that did some."""
    upstream.choose = respond
    attempts = []
    for case in cases:
        slug = make_new_endpoint(service, upstream).slug
        attempts.append((case, slug, send_case(service, upstream, case, slug, in_bytes=in_bytes)))
    upstream.faults.clear()  # each is in the evidence of its case
    service.wait_spool_empty()
    harms = {
        case.name: find_harm(case, evidence, service.rows(slug))
        for case, slug, evidence in attempts
    }
    assert len(harms) == len(cases)
    return {name: harm for name, harm in harms.items() if harm}


def send_case(
    service: Service, upstream: Upstream, case: Framing, slug: str, *, in_bytes: bool = False
) -> Evidence:
    """Send a case to a proxy endpoint, at once or byte by byte, and return what came of it."""
    seen_before, faults_before = len(upstream.requests), len(upstream.faults)
    with RawClient(service.address, timeout_s=PATIENCE_S) as client:
        received = _send(client, case, case.data_for(slug), in_bytes)
        # Once this is dealt with, so is all that came before it: also where nobody was told anything.
        assert service.get("/livez").status == 200
        with suppress(ConnectionError):
            received += client.arrived()
    return Evidence(
        received=received,
        seen=upstream.requests[seen_before:],
        faults=upstream.faults[faults_before:],
    )


def _send(client: RawClient, case: Framing, data: bytes, in_bytes: bool) -> bytes:
    """Send a case, and read until it is over: the end, or a response to each body."""
    with suppress(ConnectionError):  # it was refused before all of it was sent
        for part in (data[i : i + 1] for i in range(len(data))) if in_bytes else (data,):
            client.send(part)
    if case.stalls:
        return b""
    received = b""
    with suppress(ConnectionError, TimeoutError):
        while not _is_over(received, case.may_arrive) and (more := client.socket.recv(1 << 16)):
            received += more
    return received


def _is_over(received: bytes, bodies: Sequence[bytes]) -> bool:
    if any(status >= 400 for status in find_statuses(received)):
        return True
    return bool(bodies) and all(response_to(body) in received for body in bodies)
