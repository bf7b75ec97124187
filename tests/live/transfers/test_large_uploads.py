"""Uploads that are too large to be held, or become so, while the way to the upstream is only being made."""

import threading

import pytest

from addon.upstream_forwarding import LOGGED_REQUEST_LIMIT_BYTES
from tests.live.transfers.conftest import Line, with_tls
from tests.live.transfers.uploads import HELD, STREAMED, Upload, make_body

pytestmark = with_tls

BODY_BYTES = LOGGED_REQUEST_LIMIT_BYTES + 5000
STREAMED_BYTES = 16 << 20
MOST_HELD_BYTES = 8 << 20
PIECE_BYTES = 64 << 10
CHUNK_BYTES = {
    "in small chunks": 1 << 20,
    "in its last read": LOGGED_REQUEST_LIMIT_BYTES - 100,
}


def send_beside(line: Line, upload: Upload, slug: str) -> tuple[int, int]:
    """Send the upload while its upstream waits; return the status, and how much the proxy has grown
    before the upstream was let in."""
    line.doorman.close()
    wire, sent = upload.make_wire(slug), list[int]()
    before = line.proxy.memory_bytes
    with line.proxy.connect() as client:

        def send_all() -> None:
            for start in range(0, len(wire), PIECE_BYTES):
                client.send(wire[start : start + PIECE_BYTES])
                sent.append(start)

        sending = threading.Thread(target=send_all)
        sending.start()
        line.doorman.wait_arrival()
        line.wait_stalled(sent)
        grown = line.proxy.memory_bytes - before
        line.doorman.open()
        status = client.read_response().status
        sending.join()
    return status, grown


@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES.values(), ids=CHUNK_BYTES)
def test_a_chunked_call_that_outgrows_what_is_held_arrives_whole_and_is_logged_without_its_request(
    line: Line, chunk_bytes: int
) -> None:
    upload = Upload(HELD, make_body(BODY_BYTES), chunk_bytes)
    status, _ = send_beside(line, upload, line.proxy.take_slug())
    assert status == 200
    [seen] = line.upstream.requests
    assert bytes(seen.body) == upload.body
    [spooled] = line.proxy.take_spooled(1)
    assert (spooled.head.request_body, spooled.ending.outcome) == ("omitted", "complete")


@pytest.mark.parametrize("chunk_bytes", [None, 1 << 20])
def test_an_upload_that_is_streamed_waits_for_its_upstream_without_being_held(
    line: Line, chunk_bytes: int | None
) -> None:
    upload = Upload(STREAMED, make_body(STREAMED_BYTES), chunk_bytes)
    status, grown = send_beside(line, upload, line.proxy.take_slug())
    assert status == 200
    assert grown < MOST_HELD_BYTES
    [seen] = line.upstream.requests
    assert bytes(seen.body) == upload.body
