"""Peers that do not read: what the other side sends waits with it, and not in the proxy."""

import threading

import pytest

from tests.live.transfers.conftest import Line
from tests.live.transfers.uploads import HELD, STREAMED, Upload
from tests.rawclient import RawClient
from tests.upstream import Gate, Script, SeenRequest, head

MIB = 1 << 20
PIECE = b"x" * MIB
PIECES = 64
"""More than all buffers on the way: only that of the proxy's socket to its upstream has no bound of ours."""
BODY_BYTES = PIECES * MIB
MOST_HELD_BYTES = 8 * MIB
"""In the proxy. The kernel's buffers hold some more, on both of its sides."""


@pytest.mark.parametrize("path", [HELD, STREAMED])
def test_a_response_waits_at_its_upstream_while_the_client_does_not_read(
    line: Line, path: str
) -> None:
    written: list[object] = []

    def write(request: SeenRequest) -> bytes:
        written.append(request)
        return PIECE

    line.upstream.enqueue(
        Script((head(200, [("content-length", str(BODY_BYTES))]), *[write] * PIECES))
    )
    before = line.proxy.memory_bytes
    with RawClient(line.proxy.address) as client:
        client.send(Upload(path, b"{}").make_wire(line.proxy.take_slug()))
        line.wait_stalled(written)
        assert len(written) < PIECES
        assert line.proxy.memory_bytes - before < MOST_HELD_BYTES
        response = client.read_response()
    assert len(response.body) == BODY_BYTES
    assert not response.cut


def test_an_upload_waits_at_its_client_while_the_upstream_does_not_read(line: Line) -> None:
    gate = Gate()
    line.upstream.enqueue(Script((gate, head(200, [("content-length", "0")])), early=True))
    upload = Upload(STREAMED, PIECE * PIECES)
    before = line.proxy.memory_bytes
    sent: list[object] = []
    with line.proxy.connect() as client:
        client.send(upload.make_head(line.proxy.take_slug()))

        def send_all() -> None:
            for _ in range(PIECES):
                client.send(PIECE)
                sent.append(PIECE)

        sending = threading.Thread(target=send_all)
        sending.start()
        gate.wait_reached()
        line.wait_stalled(sent)
        assert len(sent) < PIECES
        assert line.proxy.memory_bytes - before < MOST_HELD_BYTES
        gate.open()
        sending.join()
        assert client.read_response().status == 200
    assert len(line.upstream.wait_for_requests(1)[0].body) == BODY_BYTES
