"""The moment at which each part of a response reaches the client."""

import pytest

from tests.live.conftest import EndpointFactory, make_new_endpoint
from tests.live.service import Endpoint, Service, body_bytes
from tests.live.wire.checks import EVENTS, STREAM, barrier, wait_spooled
from tests.upstream import Gate, Upstream, sse


def test_live_each_event_arrives_before_the_upstream_sends_the_next(live: Endpoint) -> None:
    gates = [Gate() for _ in EVENTS]
    live.upstream.enqueue(sse([step for pair in zip(EVENTS, gates, strict=True) for step in pair]))
    with live.connect() as client:
        client.send(live.message())
        response = client.read_response_head()
        pieces = client.iter_body(response)
        for expected, gate in zip(EVENTS, gates, strict=True):
            assert next(pieces) == expected
            gate.wait_reached()
            gate.open()
        assert list(pieces) == []
    assert body_bytes(live.row()["response_body"]) == STREAM


@pytest.fixture(params=["by the endpoint", "by the setting"])
def buffered(
    request: pytest.FixtureRequest,
    make_endpoint: EndpointFactory,
    customised_service: tuple[Service, Upstream],
) -> Endpoint:
    """An endpoint whose answers are returned once they are whole, because it says so or nothing."""
    if request.param == "by the endpoint":
        return make_endpoint("buffered")
    service, upstream = customised_service
    upstream.reset()
    return make_new_endpoint(service, upstream)


def test_buffered_nothing_arrives_before_the_upstream_has_ended(buffered: Endpoint) -> None:
    gate = Gate()
    buffered.upstream.enqueue(sse([*EVENTS[:-1], gate, EVENTS[-1]]))
    with buffered.connect() as client:
        client.send(buffered.message())
        gate.wait_reached()
        wait_spooled(buffered.service, b"content_block_stop")
        barrier(buffered.service)
        assert b"event:" not in client.arrived()
        gate.open()
        assert client.read_response().body == STREAM
    row = buffered.row()
    assert (body_bytes(row["response_body"]), row["outcome"]) == (STREAM, "complete")
