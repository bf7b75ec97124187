"""Uploads that are too large to be held, or become so."""

import threading

import psutil
import pytest

from addon.upstream_forwarding import LOGGED_REQUEST_LIMIT_BYTES
from tests.live.transfers.conftest import Line
from tests.live.transfers.uploads import HELD, STREAMED, Upload, make_body

BODY_BYTES = LOGGED_REQUEST_LIMIT_BYTES + 5000
CHUNK_BYTES = {
    "in small chunks": 1 << 20,
    "in its last read": LOGGED_REQUEST_LIMIT_BYTES - 100,
}


def send_beside(line: Line, upload: Upload, slug: str) -> tuple[int, int]:
    """Send the upload while its upstream waits; return the status, and how much the proxy has grown
    before the upstream was let in."""
    process = psutil.Process(line.proxy.pid)
    line.doorman.close()
    before = process.memory_info().rss
    with line.proxy.connect() as client:
        sending = threading.Thread(target=client.send, args=(upload.make_wire(slug),))
        sending.start()
        line.doorman.wait_arrival()
        line.proxy.pass_all()
        grown = process.memory_info().rss - before
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
    upload = Upload(STREAMED, make_body(BODY_BYTES), chunk_bytes)
    status, grown = send_beside(line, upload, line.proxy.take_slug())
    assert status == 200
    assert grown < 8 << 20
    [seen] = line.upstream.requests
    assert bytes(seen.body) == upload.body
