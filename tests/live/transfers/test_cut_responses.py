"""Upstreams that end, or fall silent, at each byte of a response."""

import pytest
from hypothesis import given, strategies as st

from runtime.settings import Streaming
from tests.live.transfers.conftest import Line
from tests.live.transfers.test_uploads import together
from tests.live.transfers.uploads import (
    HELD,
    MODES,
    Upload,
    cut,
    make_body,
    places,
    places_of_interest,
)
from tests.rawclient import Cut, Response
from tests.upstream import CLOSE, PATIENCE_S, STALL, Framing, Script, answer, head

BODY = b'{"a":1}'
FRAMINGS: dict[Framing, bytes] = {
    "length": head(200, [("content-length", str(len(BODY)))]) + BODY,
    "chunked": head(200, [("transfer-encoding", "chunked")])
    + b'3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n',
}
REQUEST = Upload(HELD, b"{}")


def play(line: Line, mode: Streaming, script: Script) -> Response | None:
    """Make a call, which gets this response; return what the client had of it, if it had a head."""
    line.upstream.enqueue(script)
    with line.proxy.connect() as client:
        client.send(REQUEST.make_wire(line.proxy.take_slug(mode)))
        try:
            return client.read_response()
        except Cut:
            return None


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("mode", MODES)
def test_a_response_that_is_cut_at_any_byte_is_a_cut_or_a_502_and_what_came_is_kept(
    line: Line, mode: Streaming, framing: Framing
) -> None:
    whole = FRAMINGS[framing]
    for place in [0, *places_of_interest(whole)]:
        response = play(line, mode, Script((whole[:place], CLOSE)))
        if response is not None and response.status == 200:
            assert response.cut, place
            assert BODY.startswith(response.body), place
        else:
            assert response is None or response.header("x-taximeter-error"), place
        [spooled] = line.proxy.take_spooled(1)
        has_head = b"\r\n\r\n" in whole[:place]
        assert (spooled.response is not None) is has_head, place
        assert BODY.startswith(spooled.response_body), place
        if response is not None and response.cut:  # a response that is held stays here
            assert response.body == (spooled.response_body if mode == "live" else b"")
        assert spooled.ending.outcome == "upstream_interrupted", place


@together
@given(
    st.sampled_from(MODES),
    st.sampled_from(["length", "chunked", "close"]),
    st.sampled_from([0, 1, 300, 70_000]).map(make_body),
    places(),
)
def test_a_response_in_pieces_arrives_whole_wherever_it_is_cut(
    line: Line, mode: Streaming, framing: Framing, body: bytes, cuts: list[int]
) -> None:
    steps = answer(200, body, framing=framing).steps
    wire = b"".join(step for step in steps if isinstance(step, bytes))
    end = [step for step in steps if not isinstance(step, bytes)]
    response = play(line, mode, Script((*cut(wire, cuts), *end)))
    assert response is not None
    assert (response.status, response.body, response.cut) == (200, body, False)
    [spooled] = line.proxy.take_spooled(1)
    assert (spooled.response_body, spooled.ending.outcome) == (body, "complete")


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("mode", MODES)
def test_an_upstream_that_falls_silent_at_any_byte_is_left_with_its_client(
    line: Line, mode: Streaming, framing: Framing
) -> None:
    whole = FRAMINGS[framing]
    for place in range(0, len(whole), 3):
        line.upstream.requests.clear()
        line.upstream.enqueue(Script((whole[:place], STALL)))
        with line.proxy.connect() as client:
            client.send(REQUEST.make_wire(line.proxy.take_slug(mode)))
            line.upstream.wait_for_requests(1)
            line.proxy.pass_all()
        assert line.upstream.requests[0].abandoned.wait(PATIENCE_S), place
        [spooled] = line.proxy.take_spooled(1)
        assert spooled.ending.outcome == "client_disconnected", place
        assert BODY.startswith(spooled.response_body), place
