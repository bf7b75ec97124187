"""Clients that go on sending when they have got the last response on their connection: they can read it."""

import pytest

from tests.live.transfers.conftest import Line
from tests.live.transfers.proxy_process import make_head
from tests.live.transfers.uploads import HELD, STREAMED, Upload, make_body
from tests.rawclient import RawClient
from tests.upstream import answer

MORE = make_body(4_000_000)


def send_on(line: Line, client: RawClient, data: bytes) -> None:
    """Send what the proxy will not read, for as long as it takes it."""
    line.proxy.pass_all()
    for start in range(0, len(data), 100_000):
        client.send(data[start : start + 100_000])


@pytest.mark.parametrize(
    "fields",
    [
        [("content-length", "5"), ("transfer-encoding", "chunked")],
        [("content-length", "x")],
        [("bad name", "x"), ("content-length", str(len(MORE)))],
    ],
    ids=["two lengths", "no length", "bad name"],
)
def test_a_client_can_read_why_its_request_is_not_valid(
    line: Line, fields: list[tuple[str, str]]
) -> None:
    with line.proxy.connect() as client:
        client.send(make_head(line.proxy.take_slug(), HELD, *fields))
        send_on(line, client, MORE)
        assert client.read_response().status == 400


@pytest.mark.parametrize("path", [HELD, STREAMED])
def test_a_client_can_read_why_its_body_is_not_valid(line: Line, path: str) -> None:
    with line.proxy.connect() as client:
        client.send(Upload(path, b"", 1).make_head(line.proxy.take_slug()) + b"no chunk\r\n")
        send_on(line, client, MORE)
        assert client.read_response().status == 400


def test_an_early_response_that_ends_with_its_connection_ends_that_of_the_client(
    line: Line,
) -> None:
    upload = Upload(STREAMED, MORE)
    early = answer(413, b"too large", framing="close", early=True)
    line.upstream.enqueue(early)
    with line.proxy.connect() as client:
        client.send(upload.make_head(line.proxy.take_slug()) + MORE[:1000])
        response = client.read_response()
        assert (response.status, response.body, response.cut) == (413, b"too large", False)
