"""Requests: heads, bodies, and bytes that come too early or too late."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.proxy import commands

from addon import request_heads
from addon.body_memory import BodyMemory
from addon.core import head_bounds
from addon.http1 import chunked, layer as layers
from addon.request_heads import RequestHeads
from runtime.worker_board import Shared
from tests.addon.core.conftest import Policy
from tests.addon.http1.conftest import Peers, run_hook

KIBI = 1024
LATER_S = 1e12
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
UPLOAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
TINY_CHUNKS = b"1\r\nx\r\n" * 10_000


def refusal_of(peers: Peers) -> tuple[int, dict[str, Any]]:
    """Return the status of the last response, and its error."""
    head, _, body = peers.sent[-1].partition(b"\r\n\r\n")
    assert b"connection: close" in head
    return int(head.split(b" ")[1]), json.loads(body)["error"]


# -- heads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 9, 1000])
def test_a_request_is_read_however_it_comes(peers: Peers, step: int) -> None:
    sent = b"\r\n" + UPLOAD % 5 + b"hello"
    for start in range(0, len(sent), step):
        peers.send(sent[start : start + step])
    peers.open()
    assert b"".join(peers.upstream_sent) == UPLOAD % 5 + b"hello"
    assert peers.addon.ran == ["requestheaders", "request"]
    [flow] = peers.addon.flows
    assert (flow.request.method, flow.request.content) == ("POST", b"hello")


def test_requests_that_come_together_take_turns(peers: Peers, memory: BodyMemory) -> None:
    peers.send(REQUEST * 3)
    peers.open()
    for left in (2, 1, 0):
        assert peers.addon.ran.count("request") == 3 - left
        assert memory.total_bytes == left * len(REQUEST)
        peers.respond(RESPONSE)
        assert peers.layer.input.waits_for_turn is bool(left)
        if left == 2:
            assert peers.send(b"") == []  # what comes meanwhile waits too
        if left:
            peers.wake()
    assert b"".join(peers.sent) == RESPONSE * 3
    assert len(peers.opening) == 1


def test_a_turn_that_comes_after_the_end_of_its_connection_does_nothing(peers: Peers) -> None:
    peers.send(REQUEST * 2)
    peers.open()
    peers.respond(RESPONSE)
    peers.leave()
    assert peers.wake() == []
    assert peers.addon.ran.count("request") == 1


def test_a_head_without_end_is_refused(peers: Peers) -> None:
    taken = 0
    peers.send(b"GET / HTTP/1.1\r\nx: ")
    while not peers.sent:
        peers.send(b"x" * 65536)
        taken += 65536
    assert taken <= head_bounds.MAX_HEAD_BYTES + 65536
    assert refusal_of(peers)[0] == 431
    assert peers.lingers


def test_a_head_larger_than_the_setting_is_refused_and_counted(
    peers: Peers, heads: RequestHeads
) -> None:
    heads.largest_bytes = 4000
    peers.send(b"GET / HTTP/1.1\r\na: %b" % (b"x" * 4000))
    assert "its head is larger than 4 KB" in refusal_of(peers)[1]["message"]
    assert heads._board.total(Shared.LARGE_HEADS_REFUSED) == 1


LARGE_HEADS = {
    "many lines": b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 201 + b"\r\n",
    "many bytes": b"GET / HTTP/1.1\r\n" + b"a: %b\r\n" % (b"x" * 1000) * 70 + b"\r\n",
    "a long path": b"GET /%b HTTP/1.1\r\n\r\n" % (b"x" * 16 * KIBI),
}


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("large", LARGE_HEADS)
def test_a_large_head_is_refused_and_what_follows_is_thrown_away(
    peers: Peers, memory: BodyMemory, heads: RequestHeads, large: str, *, is_whole: bool
) -> None:
    peers.send(LARGE_HEADS[large] if is_whole else LARGE_HEADS[large][:-2])
    assert refusal_of(peers)[0] == 431
    assert b"x-taximeter-error: head_too_large\r\n" in peers.sent[0]
    assert peers.lingers
    assert peers.send(REQUEST) == []
    assert memory.total_bytes == len(peers.layer.input.buffer) == 0
    assert heads.take_overdue(LATER_S) == [(peers.client.id, True)]
    peers.leave()
    assert peers.is_closed
    assert peers.addon.ran == []


def test_a_query_may_be_longer_than_a_path(peers: Peers) -> None:
    peers.send(b"GET /traces?sql=%b HTTP/1.1\r\nhost: a\r\n\r\n" % (b"x" * 40 * KIBI))
    assert peers.addon.ran == ["requestheaders", "request"]


def test_a_large_body_and_200_header_lines_make_no_large_head(peers: Peers) -> None:
    head = b"POST / HTTP/1.1\r\ncontent-length: 200000\r\n" + b"a:\r\n" * 199 + b"\r\n"
    peers.send(head + b"\n" * 200_000)
    assert peers.addon.ran == ["requestheaders", "request"]


def test_a_client_that_speaks_tls_is_refused_at_once(peers: Peers) -> None:
    peers.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    status, error = refusal_of(peers)
    assert status == 400
    assert "use http://" in error["message"]
    assert peers.lingers


def test_heads_share_the_memory_of_request_bodies(
    make_peers: Callable[..., Peers], memory: BodyMemory
) -> None:
    memory.hold("a body", 8192 * KIBI - 60 * KIBI)
    first, second = make_peers(), make_peers()
    for peers in (first, second):
        peers.send(b"GET / HTTP/1.1\r\nx: " + b"x" * 50 * KIBI)
    assert first.sent == []
    assert refusal_of(second)[0] == 503
    assert second.lingers


def test_a_head_takes_no_memory_once_its_client_has_left(peers: Peers, memory: BodyMemory) -> None:
    peers.send(b"GET / HTTP/1.1\r\nx: " + b"x" * 50 * KIBI)
    assert memory.total_bytes > 50 * KIBI
    peers.leave()
    assert memory.total_bytes == len(peers.layer.input.buffer) == 0
    assert peers.is_closed


def test_a_silent_connection_and_a_head_that_has_begun_are_awaited(
    peers: Peers, heads: RequestHeads
) -> None:
    heads.await_first(peers.client.id)
    heads.await_first("silent")
    peers.send(b"GET / HT")
    assert heads.take_overdue(0) == []
    assert heads.take_overdue(LATER_S) == [(peers.client.id, True), ("silent", False)]


def test_a_head_that_goes_on_slowly_is_awaited_since_it_began(
    peers: Peers, heads: RequestHeads, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = iter([10.0, 20.0, 30.0])
    monkeypatch.setattr(request_heads, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    for byte in b"GET":
        peers.send(bytes([byte]))
    assert heads.take_overdue(11) == [(peers.client.id, True)]


def test_nothing_is_awaited_once_a_head_is_whole(peers: Peers, heads: RequestHeads) -> None:
    heads.await_first(peers.client.id)
    peers.send(REQUEST[:5])
    peers.send(REQUEST[5:])
    assert heads.take_overdue(LATER_S) == []


FAULTS = {
    "no HTTP": (b"hello\r\n\r\n", "its first line"),
    "a control character": (b"GET / HTTP/1.1\r\nx: \x0b\r\n\r\n", "control characters"),
    "a tunnel": (b"CONNECT a:1 HTTP/1.1\r\n\r\n", "its method"),
    "another scheme": (b"GET ftp://a:1/ HTTP/1.1\r\n\r\n", "its first line"),
    "two lengths": (CHUNKED[:-2] + b"content-length: 1\r\n\r\n", "both Transfer-Encoding"),
    "no length": (b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", "its Content-Length"),
    "no coding": (b"POST / HTTP/1.1\r\ntransfer-encoding: x\r\n\r\n", "its Transfer-Encoding"),
    "no name": (b"GET / HTTP/1.1\r\na b: 1\r\n\r\n", "a header line"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_that_is_not_valid_is_refused_in_json_and_quoted_nowhere(
    peers: Peers, fault: str
) -> None:
    head, words = FAULTS[fault]
    peers.send(head)
    status, error = refusal_of(peers)
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert words in error["message"]
    assert peers.lingers
    assert peers.opening == []
    assert peers.addon.ran in ([], ["requestheaders", "error"])


# -- bodies -------------------------------------------------------------------------------------------


def test_what_is_left_of_a_held_body_is_known_until_it_is_whole(peers: Peers) -> None:
    left = []
    for data in (UPLOAD % 5, b"12", b"345"):
        peers.send(data)
        left.append(peers.layer.input.left_bytes)
    assert left == [5, 3, 0]


@pytest.mark.parametrize("head", [UPLOAD % 500, CHUNKED])
def test_nothing_is_known_of_a_body_that_is_passed_on_or_in_chunks(
    peers: Peers, head: bytes
) -> None:
    if head != CHUNKED:
        peers.addon.on["requestheaders"] = lambda flow: setattr(flow.request, "stream", True)
    peers.send(head + b"2\r\nhi\r\n")
    assert peers.layer.input.left_bytes == 0


def test_the_addon_hears_how_a_body_grows_and_may_end_it(peers: Peers, policy: Policy) -> None:
    policy.limit = 2000
    peers.send(UPLOAD % 9000)
    for _ in range(3):
        peers.send(bytes(1000))
    assert policy.told == [1000, 2000, 3000]
    assert peers.addon.ran == ["requestheaders", "error"]
    assert peers.opening == []
    assert peers.is_closed


@pytest.mark.parametrize("head", [UPLOAD % 3000, CHUNKED])
def test_a_body_that_outgrows_what_is_held_is_passed_on_whole(
    peers: Peers, policy: Policy, head: bytes
) -> None:
    policy.largest_held_bytes = 1500 if head == CHUNKED else 1 << 30
    parts = [bytes([number]) * 1000 for number in range(3)]
    framed = [b"3e8\r\n%b\r\n" % part for part in parts] if head == CHUNKED else parts
    peers.send(head + framed[0])
    peers.send(framed[1])
    if head == CHUNKED:
        assert policy.told == [1000, "streamed"]
        assert peers.upstream_sent == []
    peers.send(framed[2] + (b"0\r\n\r\n" if head == CHUNKED else b""))  # before it is connected
    peers.open()
    received = b"".join(peers.upstream_sent)
    assert received.startswith(head)
    for part in parts:
        assert part in received
    assert peers.addon.ran == ["requestheaders", "request"]


def test_a_body_that_outgrows_what_is_held_in_its_last_read_is_whole(
    peers: Peers, policy: Policy
) -> None:
    policy.largest_held_bytes = 500
    peers.send(CHUNKED + b"3e8\r\n%b\r\n0\r\n\r\n" % bytes(1000))
    peers.open()
    assert b"".join(peers.upstream_sent) == CHUNKED + b"3e8\r\n%b\r\n0\r\n\r\n" % bytes(1000)


def test_what_comes_before_a_streamed_request_is_connected_is_sent_then(peers: Peers) -> None:
    peers.addon.on["requestheaders"] = lambda flow: setattr(flow.request, "stream", True)
    peers.send(UPLOAD % 6 + b"12")
    peers.send(b"34")
    assert peers.upstream_sent == []
    peers.open()
    peers.send(b"56" + REQUEST)
    assert b"".join(peers.upstream_sent) == UPLOAD % 6 + b"123456"
    assert bytes(peers.layer.input.buffer) == REQUEST


def test_an_addon_may_change_a_streamed_request(peers: Peers) -> None:
    def stream(data: bytes) -> list[bytes]:
        return [data.upper()] if data else [b"!"]

    peers.addon.on["requestheaders"] = lambda flow: setattr(flow.request, "stream", stream)
    peers.send(CHUNKED + b"2\r\nhi\r\n0\r\n\r\n")
    peers.open()
    assert b"".join(peers.upstream_sent) == CHUNKED + b"2\r\nHI\r\n1\r\n!\r\n0\r\n\r\n"


BAD_CHUNKS = [b"+2\r\nhi\r\n", b"0x2\r\nhi\r\n", b"zz\r\n", b"2\nhi\n", b"1" * 40 + b"\r\n"]


@pytest.mark.parametrize("bad", BAD_CHUNKS)
@pytest.mark.parametrize("before", [b"", b"1\r\nx\r\n"])
def test_the_client_of_a_bad_chunk_is_told_so(peers: Peers, bad: bytes, before: bytes) -> None:
    peers.send(CHUNKED + before + bad)
    assert refusal_of(peers)[0] == 400
    assert "fault in its body" in refusal_of(peers)[1]["message"]
    assert b"x-taximeter-error: protocol_error" in peers.sent[0]
    assert peers.lingers
    assert peers.addon.ran == ["requestheaders", "error"]
    assert peers.opening == []


@pytest.mark.parametrize(
    "how", ["in a head", "in a body", "in a chunk", "while connecting", "after"]
)
def test_a_client_that_leaves_is_told_nothing_and_its_call_ends(peers: Peers, how: str) -> None:
    sent = {
        "in a head": REQUEST[:9],
        "in a body": UPLOAD % 5 + b"12",
        "in a chunk": CHUNKED + b"5\r\nx",
        "while connecting": REQUEST,
        "after": REQUEST,
    }
    peers.send(sent[how])
    if how == "after":
        peers.open()
    peers.leave()
    assert peers.sent == []
    assert peers.is_closed
    assert ("error" in peers.addon.ran) is (how != "in a head")
    assert not peers.opening or not peers.has_upstream


def test_what_a_refused_client_sends_is_thrown_away_unread(peers: Peers) -> None:
    peers.send(CHUNKED)
    peers.layer.input.refuse()
    assert peers.send(b"no chunks at all" + TINY_CHUNKS) == []
    assert len(peers.layer.input.buffer) == 0
    assert chunked.rest.take_s() == 0


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
def test_a_client_that_waits_to_be_told_is_told_to_go_on_unless_it_knows_no_interim_responses(
    peers: Peers, version: bytes
) -> None:
    upload = (UPLOAD % 5).replace(b"HTTP/1.1", version)
    peers.send(upload[:-2] + b"Expect: 100-Continue\r\n\r\n")
    assert peers.sent == [b"HTTP/1.1 100 Continue\r\n\r\n"] * (version == b"HTTP/1.1")
    peers.send(b"hello")
    peers.open()
    assert b"".join(peers.upstream_sent) == upload + b"hello"


# -- bodies that are costly to read -------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the reader of chunks, which stands still until a test moves it."""
    now_s = [100.0]
    monkeypatch.setattr(chunked, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    return now_s


def send_costly(peers: Peers) -> float:
    peers.send(CHUNKED + TINY_CHUNKS)
    return chunked.rest.take_s()


def held_of(peers: Peers) -> int:
    assert peers.layer.client.call is not None
    return peers.layer.client.call.held_bytes


def test_tiny_chunks_on_a_new_connection_wait_for_those_on_another(
    make_peers: Callable[..., Peers], clock: list[float]
) -> None:
    rest_s = send_costly(make_peers())
    second, third = make_peers(), make_peers()
    for peers in (second, third):
        peers.send(CHUNKED + TINY_CHUNKS)
        assert (held_of(peers), peers.layer.input.is_postponed) == (0, True)
        assert peers.wakeups[-1].delay == pytest.approx(rest_s)
    assert second.send(b"1\r\ny\r\n") == []
    clock[0] += rest_s
    second.wake()
    assert held_of(second) == 10_001
    third.wake()
    assert third.wakeups[-1].delay == pytest.approx(rest_s, rel=0.01)
    clock[0] += third.wakeups[-1].delay
    third.wake()
    assert held_of(third) == 10_000


@pytest.mark.usefixtures("clock")
def test_a_body_in_usual_chunks_waits_for_nobody(make_peers: Callable[..., Peers]) -> None:
    send_costly(make_peers())
    peers = make_peers()
    peers.send(CHUNKED + b"3e8\r\n%b\r\n" % bytes(1000) * 10)
    assert held_of(peers) == 10_000


@pytest.mark.usefixtures("clock")
def test_a_client_that_leaves_while_it_waits_is_forgotten(make_peers: Callable[..., Peers]) -> None:
    send_costly(make_peers())
    peers = make_peers()
    peers.send(CHUNKED + TINY_CHUNKS)
    peers.leave()
    assert not peers.layer.input.is_postponed
    assert peers.wake() == []


# -- what comes before the response -------------------------------------------------------------------


def test_what_comes_early_is_bounded(peers: Peers) -> None:
    peers.send(REQUEST)
    peers.open()
    taken = 0
    while not peers.is_closed:
        peers.send(bytes(65536))
        taken += 65536
    assert taken <= layers.MAX_EARLY_BYTES + 65536
    assert peers.addon.ran[-1] == "error"
    assert not peers.has_upstream


def test_what_is_behind_a_head_is_counted_once(peers: Peers, memory: BodyMemory) -> None:
    head = UPLOAD % 60_000
    peers.send(head[:10])
    assert memory.total_bytes == 10
    peers.send(head[10:] + bytes(50_000))
    assert memory.total_bytes == 0  # it is the addon that counts bodies
    peers.send(bytes(10_000) + REQUEST)
    assert memory.total_bytes == len(REQUEST)


def test_what_comes_early_is_kept_only_while_there_is_memory(
    peers: Peers, memory: BodyMemory
) -> None:
    peers.send(REQUEST)
    memory.hold("a body", 8192 * KIBI - 100 * KIBI)
    peers.send(bytes(65536))
    assert not peers.is_closed
    peers.send(bytes(65536))
    assert peers.is_closed


# -- hooks --------------------------------------------------------------------------------------------


def test_a_response_of_an_addon_is_sent_once_the_request_is_whole(peers: Peers) -> None:
    peers.addon.on["requestheaders"] = lambda flow: setattr(
        flow, "response", http.Response.make(418, b"tea", {"x-a": "1"})
    )
    peers.send(UPLOAD % 5 + b"12")
    assert peers.sent == []
    peers.send(b"345")
    assert peers.sent == [b"HTTP/1.1 418 I'm a teapot\r\nx-a: 1\r\ncontent-length: 3\r\n\r\ntea"]
    assert peers.addon.ran == ["requestheaders", "request", "responseheaders", "response"]
    assert peers.opening == []
    peers.send(REQUEST)  # the connection serves the next one
    assert peers.addon.ran.count("request") == 2


@pytest.mark.parametrize("hook", ["requestheaders", "request"])
def test_a_call_that_an_addon_kills_is_not_forwarded(peers: Peers, hook: str) -> None:
    peers.addon.on[hook] = lambda flow: flow.kill()
    peers.send(REQUEST)
    assert peers.opening == []
    assert peers.is_closed
    assert peers.addon.ran[-1] == "error"


def test_a_hook_that_has_to_wait_is_waited_for(peers: Peers) -> None:
    waited: list[str] = []

    async def wait(_flow: Any) -> None:
        await asyncio.sleep(0)
        waited.append("request")

    peers.addon.on["request"] = wait
    [hook] = peers.send(REQUEST)
    assert isinstance(hook, commands.StartHook)
    [work] = hook.args()
    asyncio.run(work)
    assert waited == ["request"]
    peers.send(REQUEST)  # comes meanwhile, and stays
    run_hook(peers, hook)
    assert peers.addon.ran == ["requestheaders", "request"]
    assert len(peers.opening) == 1


def test_a_client_that_leaves_while_a_hook_waits_ends_the_call(peers: Peers) -> None:
    async def wait(_flow: Any) -> None:
        """Take until the client has left."""

    peers.addon.on["requestheaders"] = wait
    [hook] = peers.send(REQUEST)
    [work] = hook.args()  # type: ignore[attr-defined]
    asyncio.run(work)
    waits = [peers.layer.input.awaits_hook]
    peers.leave()
    run_hook(peers, hook)  # type: ignore[arg-type]
    assert [*waits, peers.layer.input.awaits_hook] == [True, False]
    assert peers.addon.ran == ["requestheaders", "error"]
    assert peers.opening == []
    assert peers.is_closed


def test_without_a_table_every_hook_is_left_to_mitmproxy(make_peers: Callable[..., Peers]) -> None:
    peers = make_peers(inline=False)
    names = []
    ordered = peers.send(REQUEST)
    while ordered and isinstance(ordered[-1], commands.StartHook):
        names.append(ordered[-1].name)
        ordered = run_hook(peers, ordered[-1])
    assert names == ["requestheaders", "request"]
    assert peers.addon.ran == []
    assert len(peers.opening) == 1


def test_a_mistake_in_a_hook_is_logged_and_the_call_goes_on(
    peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_flow: Any) -> None:
        raise ValueError("a mistake")

    peers.addon.on["request"] = fail
    peers.send(REQUEST)
    assert "Addon error in request" in caplog.text
    assert len(peers.opening) == 1
