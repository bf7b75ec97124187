"""Uploads, of which anything may come while the way to the upstream is only being made."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from runtime.settings import Streaming
from tests.live.transfers.conftest import Line, without_tls
from tests.live.transfers.uploads import (
    HELD,
    MODES,
    STREAMED,
    Upload,
    cut,
    make_body,
    places,
    places_of_interest,
    uploads,
)
from tests.upstream import SeenRequest, answer, head, message_json

together = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def send_while_connecting(
    line: Line, slug: str, pieces: Sequence[bytes], opened_after: int
) -> SeenRequest:
    """Send pieces one by one, let the upstream's connection in after some of them, and read the response."""
    line.doorman.close()
    with line.proxy.connect() as client:
        line.proxy.send_apart(client, pieces[:opened_after])
        line.doorman.open()
        line.proxy.send_apart(client, pieces[opened_after:])
        response = client.read_response()
    assert (response.status, response.body) == (200, message_json())
    return line.upstream.requests[-1]


def check(line: Line, upload: Upload, seen: SeenRequest) -> None:
    """The upload came as it was sent, once, and is in the spool if calls of its path are logged."""
    assert bytes(seen.body) == upload.body
    assert seen.framing == ("length" if upload.chunk_bytes is None else "chunked")
    assert len(line.upstream.requests) == 1
    spooled = line.proxy.take_spooled(int(upload.is_logged))
    assert [(each.request_body, each.ending.outcome) for each in spooled] == (
        [(upload.body, "complete")] if upload.is_logged else []
    )
    line.upstream.requests.clear()


@together
@given(uploads(), st.sampled_from(MODES), places(), st.integers(0, 9))
def test_an_upload_that_comes_while_its_upstream_is_connected_arrives_as_it_was_sent(
    line: Line, upload: Upload, mode: Streaming, cuts: list[int], opened_after: int
) -> None:
    slug = line.proxy.take_slug(mode)
    pieces = cut(upload.make_wire(slug), cuts)
    check(line, upload, send_while_connecting(line, slug, pieces, opened_after))


@pytest.mark.parametrize("path", [HELD, STREAMED])
@pytest.mark.parametrize("interim", [[], [head(103, [("link", "</a>")])]], ids=["", "interim"])
def test_an_upload_that_waits_to_be_told_to_go_on_arrives_whole(
    line: Line, path: str, interim: list[bytes]
) -> None:
    upload = Upload(path, make_body(300))
    line.upstream.enqueue(answer(200, b"{}", interim=interim))
    line.doorman.close()
    with line.proxy.connect() as client:
        client.send(upload.make_head(line.proxy.take_slug(), ("expect", "100-continue")))
        assert client.read_head().status == 100
        line.doorman.open()
        line.proxy.send_apart(client, cut(upload.body, [1, 299]))
        response = client.read_response()
    assert (response.status, response.body, response.interim) == (200, b"{}", [])
    check(line, upload, line.upstream.requests[-1])


@without_tls
@pytest.mark.parametrize("chunk_bytes", [None, 7])
@pytest.mark.parametrize("path", [HELD, STREAMED])
def test_a_request_in_two_pieces_arrives_wherever_it_is_cut(
    line: Line, path: str, chunk_bytes: int | None
) -> None:
    upload = Upload(path, make_body(20), chunk_bytes)
    with line.proxy.connect() as client:  # one upstream connection for all
        for place in places_of_interest(upload.make_wire(line.proxy.take_slug())):
            line.proxy.send_apart(client, cut(upload.make_wire(line.proxy.take_slug()), [place]))
            assert client.read_response().status == 200, place
            check(line, upload, line.upstream.requests[-1])
