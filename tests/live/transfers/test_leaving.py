"""Clients that leave, or send their next request, while the way to the upstream is only being made."""

import pytest

from runtime.settings import Streaming
from tests.live.transfers.conftest import Line
from tests.live.transfers.uploads import HELD, MODES, STREAMED, Upload, make_body
from tests.rawclient import RawClient
from tests.upstream import answer

BODY = make_body(100)
TURNS_OF_AN_END = 5
"""The turns of the event loop from a reset on a socket to the event of it; a response takes one."""
LEAVING = {
    "close": RawClient.close,
    "reset": RawClient.reset,
    "half-close": RawClient.half_close,
}


@pytest.mark.parametrize("sent", [0, 10, 100])
@pytest.mark.parametrize("path", [HELD, STREAMED])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", LEAVING)
def test_a_client_that_leaves_while_its_upstream_is_connected_is_not_completed_by_anybody(
    line: Line, how: str, mode: Streaming, path: str, sent: int
) -> None:
    upload = Upload(path, BODY)
    slug = line.proxy.take_slug(mode)
    line.doorman.close()
    with line.proxy.connect() as client:
        client.send(upload.make_head(slug) + BODY[:sent])
        if path == STREAMED or sent == len(BODY):
            line.doorman.wait_arrival()
        line.proxy.pass_all()
        LEAVING[how](client)
        for _ in range(TURNS_OF_AN_END):
            line.proxy.pass_all()
        line.doorman.open()
    line.settle()
    spooled = line.proxy.take_spooled(0)
    for seen in line.upstream.requests:  # what is held is forwarded whole or not at all
        assert bytes(seen.body) == BODY[: len(BODY) if upload.is_logged else sent]
        assert seen.whole.is_set() is (sent == len(BODY))
    assert len(spooled) == (len(line.upstream.requests) if upload.is_logged else 0)
    assert {each.ending.outcome for each in spooled} <= {"client_disconnected"}
    assert {each.request_body for each in spooled} <= {BODY}


@pytest.mark.parametrize("first", [HELD, STREAMED])
@pytest.mark.parametrize("second", [HELD, STREAMED])
@pytest.mark.parametrize("chunk_bytes", [None, 30])
def test_a_next_request_that_comes_while_the_upstream_is_connected_waits_for_its_turn(
    line: Line, first: str, second: str, chunk_bytes: int | None
) -> None:
    requests = [Upload(first, BODY, chunk_bytes), Upload(second, BODY[::-1])]
    line.upstream.enqueue(answer(200, b'"first"'), answer(200, b'"second"'))
    line.doorman.close()
    with line.proxy.connect() as client:
        for each in requests:
            line.proxy.send_apart(client, [each.make_wire(line.proxy.take_slug())])
        line.doorman.open()
        bodies = [client.read_response().body for _ in requests]
    assert bodies == [b'"first"', b'"second"']
    assert [bytes(seen.body) for seen in line.upstream.requests] == [BODY, BODY[::-1]]
    logged = [each.body for each in requests if each.is_logged]
    spooled = line.proxy.take_spooled(len(logged))
    assert [each.request_body for each in spooled] == logged
