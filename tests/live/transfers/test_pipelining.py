"""Requests on one connection, sent before the responses to those before them, and cut anywhere."""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from runtime.settings import Streaming
from tests.live.transfers.conftest import Line
from tests.live.transfers.proxy_process import make_head
from tests.live.transfers.test_uploads import together
from tests.live.transfers.uploads import (
    HELD,
    MODES,
    STREAMED,
    Upload,
    cut,
    make_body,
    places,
    uploads,
)
from tests.rawclient import Cut
from tests.upstream import Framing, Script, answer, head

RESPONSE_FRAMINGS: tuple[Framing, ...] = ("length", "chunked")


@together
@given(
    st.lists(uploads(sizes=(0, 2, 300, 5000)), min_size=2, max_size=5),
    st.sampled_from(MODES),
    st.lists(st.sampled_from(RESPONSE_FRAMINGS), min_size=5, max_size=5),
    places(3000),
)
def test_requests_that_come_together_are_responded_to_in_their_order(
    line: Line,
    requests: Sequence[Upload],
    mode: Streaming,
    framings: Sequence[Framing],
    cuts: list[int],
) -> None:
    line.upstream.requests.clear()
    bodies = [b"%d" % number * 500 for number in range(len(requests))]
    line.upstream.enqueue(
        *(
            answer(200, body, framing=framing)
            for body, framing in zip(bodies, framings, strict=False)
        )
    )
    slug = line.proxy.take_slug(mode)
    with line.proxy.connect() as client:
        line.proxy.send_apart(
            client, cut(b"".join(each.make_wire(slug) for each in requests), cuts)
        )
        assert [client.read_response().body for _ in requests] == bodies
    assert [bytes(seen.body) for seen in line.upstream.requests] == [r.body for r in requests]
    logged = [
        (each.body, body) for each, body in zip(requests, bodies, strict=True) if each.is_logged
    ]
    spooled = line.proxy.take_spooled(len(logged))
    assert [(each.request_body, each.response_body) for each in spooled] == logged


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("path", [HELD, STREAMED])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_response_of_any_framing_reaches_a_client_of_any_version(
    line: Line, version: str, path: str, framing: Framing
) -> None:
    upload, body = Upload(path, make_body(50)), make_body(70_000)
    line.upstream.enqueue(answer(200, body, framing=framing))
    with line.proxy.connect() as client:
        client.send(upload.make_head(line.proxy.take_slug(), version=version) + upload.body)
        response = client.read_response()
    assert (response.body, response.cut) == (body, False)
    assert version == "1.1" or response.head.framing("POST") in ("length", "close")


@pytest.mark.parametrize(
    ("method", "status", "fields"),
    [
        ("GET", 204, []),
        ("GET", 304, [("etag", '"1"')]),
        ("GET", 304, [("content-length", "5")]),
        ("HEAD", 200, [("content-length", "5")]),
        ("HEAD", 200, [("transfer-encoding", "chunked")]),
        ("HEAD", 404, []),
    ],
)
def test_a_response_without_a_body_ends_with_its_head_and_shifts_nothing(
    line: Line, method: str, status: int, fields: list[tuple[str, str]]
) -> None:
    line.upstream.enqueue(Script((head(status, fields),)))
    with line.proxy.connect() as client:
        client.send(make_head(line.proxy.take_slug(), "/v1/models", method=method))
        response = client.read_response(method)
        assert (response.status, response.body) == (status, b"")
        try:
            after = client.exchange(Upload(HELD, b"{}").make_wire(line.proxy.take_slug()))
        except (Cut, OSError):
            return  # the connection ended behind it
        assert after.status == 200
