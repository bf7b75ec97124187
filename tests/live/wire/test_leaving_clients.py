"""Clients that leave before, during and after the response."""

import pytest

from tests.live.service import Endpoint, body_bytes
from tests.live.wire.checks import EVENTS, STREAM, wait_spooled
from tests.rawclient import RawClient
from tests.upstream import PATIENCE_S, Gate, sse


def _leave(client: RawClient, how: str) -> None:
    if how == "reset":
        client.reset()
    else:
        client.close()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_during_the_answer_ends_the_upstream_call(
    endpoint: Endpoint, how: str
) -> None:
    gate = Gate()
    endpoint.upstream.enqueue(sse([*EVENTS[:3], gate, *EVENTS[3:]]))
    client = endpoint.connect()
    client.send(endpoint.message())
    gate.wait_reached()
    wait_spooled(endpoint.service, EVENTS[2])
    _leave(client, how)
    assert endpoint.upstream.requests[0].abandoned.wait(PATIENCE_S)
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("client_disconnected", 200)
    assert body_bytes(row["response_body"]) == b"".join(EVENTS[:3])
    assert (row["usage_source"], row["input_tokens"]) == ("estimated", 11)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_after_the_answer_changes_nothing(
    endpoint: Endpoint, how: str
) -> None:
    endpoint.upstream.enqueue(sse(EVENTS))
    client = endpoint.connect()
    assert client.exchange(endpoint.message()).body == STREAM
    _leave(client, how)
    row = endpoint.row()
    assert (row["outcome"], row["output_tokens"]) == ("complete", 7)
