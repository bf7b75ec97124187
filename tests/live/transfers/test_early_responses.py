"""Upstreams that respond before they have read the request."""

import pytest
from hypothesis import given, strategies as st

from tests.live.transfers.conftest import Line
from tests.live.transfers.test_uploads import together
from tests.live.transfers.uploads import STREAMED, Upload, make_body
from tests.rawclient import Cut
from tests.upstream import CLOSE, RESET, Action, Script, answer

EARLY = b'{"error":"too large"}'
NEXT = b"the next"


@together
@given(
    st.sampled_from([None, CLOSE, RESET]),
    st.sampled_from([None, 1000]),
    st.sampled_from([1, 10_000, 200_000]),
    st.integers(0, 200_000),
)
def test_an_early_response_arrives_whole_and_what_follows_is_never_mixed_up(
    line: Line, end: Action | None, chunk_bytes: int | None, size: int, sent: int
) -> None:
    line.upstream.requests.clear()
    upload = Upload(STREAMED, make_body(size), chunk_bytes)
    early = answer(413, EARLY, early=True)
    line.upstream.enqueue(early if end is None else early.then(end))
    with line.proxy.connect() as client:
        client.send(upload.make_head(line.proxy.take_slug()) + upload.make_body()[:sent])
        response = client.read_response()
        assert (response.status, response.body, response.cut) == (413, EARLY, False)
        try:
            client.send(upload.make_body()[sent:])
            client.send(Upload(STREAMED, NEXT).make_wire(line.proxy.take_slug()))
            after = client.read_response().status
        except (Cut, OSError):
            assert end is not None  # an upstream that goes on reading keeps the connection
            after = None
    received = [bytes(seen.body) for seen in line.upstream.requests]
    # The next request may cross the end of its upstream connection, which is then the client's to know.
    assert after == 200 or (end is not None and after in (None, 502))
    assert received[1:] == ([NEXT] if after == 200 else [])
    assert upload.body.startswith(received[0])
    assert end is not None or received[0] == upload.body


def test_an_early_response_is_not_lost_where_a_write_finds_the_upstream_gone(line: Line) -> None:
    upload = Upload(STREAMED, make_body(200_000), 1000)
    for _ in range(40):
        line.upstream.enqueue(answer(413, EARLY, early=True).then(RESET))
        with line.proxy.connect() as client:
            client.send(upload.make_head(line.proxy.take_slug()) + upload.make_body()[:-1])
            response = client.read_response()
        assert (response.status, response.body, response.cut) == (413, EARLY, False)


@pytest.mark.parametrize("sent", [0, 1, 999, 1000])
def test_an_early_response_that_the_upstream_takes_back_is_a_cut(line: Line, sent: int) -> None:
    upload = Upload(STREAMED, make_body(1000))
    [whole] = answer(413, EARLY).steps
    assert isinstance(whole, bytes)
    line.upstream.enqueue(Script((whole[:-5], CLOSE), early=True))
    with line.proxy.connect() as client:
        client.send(upload.make_head(line.proxy.take_slug()) + upload.body[:sent])
        response = client.read_response()
    assert (response.status, response.body, response.cut) == (413, EARLY[:-5], True)
