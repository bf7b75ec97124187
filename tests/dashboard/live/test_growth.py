"""A response that is read part by part is the same as one that is read at once."""

import gzip
import json
import os
import time
import zlib
from contextlib import AsyncExitStack
from itertools import pairwise

import brotli  # type: ignore[import-untyped]  # ships no types
import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from dashboard.live import pages
from dashboard.live.growing_calls import GrowingCalls
from dashboard.live.growth import GrowingResponse
from manage.server import make_app
from store.spool import reader
from store.spool.format import ResponseHead
from tests.dashboard.live.following import Proxy, following, sse
from wire.decode import GrowingBody, decode_body
from wire.response import DECIDING_BYTES

VIEWERS = 7
TEXTS = ("Good ", "day, ", "wörld\n", "\n\n", "end")
EVENTS = sse(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        for text in TEXTS
    ),
    {"type": "message_stop"},
)


def pack_raw_deflate(data):
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKED = {
    None: lambda data: data,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate ": pack_raw_deflate,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "gzip, br": lambda data: brotli.compress(gzip.compress(data)),
    "unknown": lambda data: data,
}


def cut(data, places):
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize("encoding", PACKED)
@settings(max_examples=20)  # for each encoding
@given(st.lists(st.integers(0, 700), max_size=12), st.booleans())
def test_where_a_response_is_cut_makes_no_difference(encoding, places, has_crlf):
    events = EVENTS.replace(b"\n", b"\r\n") if has_crlf else EVENTS
    packed = PACKED[encoding](events)
    body, response = GrowingBody(encoding), GrowingResponse()
    response.read(ResponseHead(status_code=200, content_encoding=encoding), b"")
    decoded = b""
    for part in cut(packed, places):
        decoded += body.feed(part)
        response.read(None, part)
    assert decoded == decode_body(packed, encoding).text == events
    assert response.is_stream
    assert response.parts[0].text == "".join(TEXTS)


def test_a_body_that_unpacks_to_very_much_or_is_damaged_ends():
    bomb = gzip.compress(bytes(64 << 20))
    body = GrowingBody("gzip")
    assert sum(len(body.feed(part)) for part in cut(bomb, range(0, len(bomb), 5000))) < 40 << 20
    damaged = GrowingBody("gzip")
    assert damaged.feed(b"no gzip at all") == b""
    assert damaged.feed(gzip.compress(b"x")) == b""


@pytest.mark.parametrize(
    ("beginning", "more"), [(b"{", b'"a": 1,' * 600), (b"data: ", b"x" * 500_000)]
)
def test_what_is_no_event_yet_is_not_kept_for_ever(beginning, more):
    response = GrowingResponse()
    response.read(ResponseHead(status_code=200), beginning)
    for _ in range(12):
        response.read(None, more)
    assert response.is_full
    assert response._response._rest == b""
    assert len(beginning) < DECIDING_BYTES


@pytest.mark.slow
def test_many_small_deltas_take_time_in_proportion_to_their_text():
    """Each added to the text before it would copy megabytes: 13 s of processor time, not 0.6."""
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    text = {"type": "text_delta", "text": "\U0001f600" * 13}
    delta = {"type": "content_block_delta", "index": 0, "delta": text}
    response = GrowingResponse()
    before_s = time.process_time()
    response.read(ResponseHead(status_code=200), sse(start) + sse(delta) * 100_000)
    assert len(response.parts[0].text) == 1_300_000
    assert time.process_time() - before_s < 6


@pytest.fixture
async def app(settings, control, queries):
    app = make_app(settings)
    async with app.router.lifespan_context(app):
        yield app


async def test_what_is_read_of_a_file_is_what_is_new_however_many_look(
    app, ann, settings, monkeypatch
):
    """Each viewer read all of the file three times a second, with a request of 32 MB in it."""
    monkeypatch.setattr(pages, "GROWTH_EVERY_S", 0.01)
    monkeypatch.setattr(reader, "_read_open", lambda *_: pytest.fail("all of the file is read"))
    read, pread = [0], os.pread

    def count(fd, size, place):
        data = pread(fd, size, place)
        read[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", count)
    proxy = Proxy(settings.spool_path)
    entry_id, file = proxy.begin(ann.organization_id, b"x" * 3_000_000)
    proxy.respond(file, EVENTS)
    async with AsyncExitStack() as stack:
        path = f"/live/{entry_id}/events"
        viewers = [
            await stack.enter_async_context(following(app, path, ann.cookie))
            for _ in range(VIEWERS)
        ]
        for viewer in viewers:
            assert (await viewer.find("response")).data["parts"]
        for number in range(20):
            delta = {"type": "text_delta", "text": str(number)}
            file.write_chunk(sse({"type": "content_block_delta", "index": 0, "delta": delta}), 1.0)
            for viewer in viewers:
                while not (parts := (await viewer.find("response")).data["parts"]):
                    pass
                assert [part["text"] for part in parts] == [str(number)]
        written = file_size(settings) - 3_000_000
        assert read[0] < written + 1000
        file.discard()
        for viewer in viewers:
            await viewer.find("ended")
    proxy.close()


def file_size(settings):
    return sum(path.stat().st_size for path in settings.spool_path.rglob("*.open"))


def test_a_call_that_nobody_looks_at_any_more_is_closed(settings, tmp_path):
    proxy = Proxy(tmp_path)
    proxy.begin("org_1", json.dumps({}).encode())
    [file] = reader.find_in_flight(tmp_path)
    calls = GrowingCalls()
    with calls.open(file) as one:
        with calls.open(file) as other:
            assert one is other
        assert len(calls) == 1
        assert one.size > 0
    assert len(calls) == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        _ = one.size
    proxy.close()
