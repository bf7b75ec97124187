"""Whatever dies or stops, at whatever moment: no entry is lost, none is doubled, bodies are exact.

Each call carries a number in its query, by which the upstream chooses its script, and in its body,
by which its entry is found again.
"""

import gzip
import json
import os
import random
import select
import shutil
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

from tests.live.conftest import ServiceFactory, make_new_endpoint
from tests.live.service import REQUEST_HEADERS, Child, Endpoint, Row, Service, body_bytes, is_over
from tests.rawclient import Cut, RawClient, Response, request
from tests.upstream import (
    CLOSE,
    RESET,
    STALL,
    Gate,
    Script,
    SeenRequest,
    Upstream,
    answer,
    chunk,
    chunked,
    cut_sse,
    error_json,
    event,
    head,
    last_chunk,
    message_events,
    message_json,
    sse,
    wait_until,
)


def number_of(seen: SeenRequest) -> int:
    return int(parse_qs(urlsplit(seen.target).query)["n"][0])


def numbered(endpoint: Endpoint, number: int) -> bytes:
    """The bytes of call number so and so."""
    body = json.dumps({"n": number, "stream": True}).encode()
    return endpoint.message(body, path=f"/v1/messages?n={number}")


def rows_by_number(rows: Sequence[Row]) -> dict[int, Row]:
    """The entries by the number of their call, which must all be different."""
    numbers = Counter(_number_of_row(row) for row in rows)
    assert [number for number, times in numbers.items() if times > 1] == []
    return {_number_of_row(row): row for row in rows}


def _number_of_row(row: Row) -> int:
    number: int = json.loads(row["request_body"])["n"]
    return number


# --- streams that stand still in the middle -----------------------------------------------------


@dataclass
class Stream:
    """A streamed call that stands at a gate, with the first half of its answer at the client."""

    number: int
    client: RawClient
    gate: Gate
    pieces: Iterator[bytes]

    @property
    def first(self) -> bytes:
        return b"".join(_events(self.number)[:3])

    @property
    def whole(self) -> bytes:
        return b"".join(_events(self.number))

    def finish(self) -> None:
        self.gate.open()
        assert self.first + b"".join(self.pieces) == self.whole

    def assert_cut(self) -> None:
        with pytest.raises(Cut):
            for _ in self.pieces:
                pass


def _events(number: int) -> list[bytes]:
    return message_events([f"text of {number}", f" ends {number}"], output_tokens=number + 1)


@pytest.fixture
def open_streams() -> Iterator[Callable[..., list[Stream]]]:
    """Opens so many streams at once and reads their first halves: `open_streams(endpoint, 50)`."""
    with ExitStack() as stack:

        def start(endpoint: Endpoint, count: int) -> list[Stream]:
            gates = [Gate() for _ in range(count)]

            def choose(seen: SeenRequest) -> Script:
                events, gate = _events(number_of(seen)), gates[number_of(seen)]
                return sse([*events[:3], gate, *events[3:]])

            endpoint.upstream.choose = choose
            clients = [stack.enter_context(endpoint.connect()) for _ in range(count)]
            for number, client in enumerate(clients):
                client.send(numbered(endpoint, number))
            streams = []
            for number, (client, gate) in enumerate(zip(clients, gates, strict=True)):
                pieces = client.iter_body(client.read_response_head())
                streams.append(Stream(number, client, gate, pieces))
                received = b""
                while len(received) < len(streams[-1].first):
                    received += next(pieces)
                assert received == streams[-1].first
            return streams

        yield start


def assert_complete(row: Row, stream: Stream) -> None:
    assert (row["outcome"], row["status_code"]) == ("complete", 200)
    assert body_bytes(row["response_body"]) == stream.whole
    assert row["output_tokens"] == stream.number + 1


def assert_interrupted_by_restart(row: Row, stream: Stream) -> None:
    """All that had come is there, and it says why there is no more."""
    assert (row["outcome"], row["status_code"]) == ("proxy_restarted", 200)
    assert body_bytes(row["response_body"]) == stream.first
    assert (row["usage_source"], row["input_tokens"]) == ("estimated", 11)


# --- services that several tests have in turn ----------------------------------------------------


@pytest.fixture(scope="module")
def crash_upstream() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def crash_service(
    crash_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service that lives on whatever dies of it."""
    with Service(tmp_path_factory.mktemp("crash"), crash_upstream.url) as service:
        yield service


@pytest.fixture(scope="module")
def ended_service(
    crash_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service that is ended again and again."""
    with Service(tmp_path_factory.mktemp("ended"), crash_upstream.url) as service:
        yield service


@pytest.fixture(scope="module")
def hasty_service(
    crash_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Another one, which waits a second for streams."""
    folder = tmp_path_factory.mktemp("hasty")
    with Service(folder, crash_upstream.url, DRAIN_SECONDS="1") as service:
        yield service


@pytest.fixture
def crashing(crash_service: Service, crash_upstream: Upstream) -> Endpoint:
    return _make_endpoint(crash_service, crash_upstream)


@pytest.fixture
def ending(ended_service: Service, crash_upstream: Upstream) -> Iterator[Endpoint]:
    yield _make_endpoint(ended_service, crash_upstream)
    assert crash_upstream.faults == []


@pytest.fixture
def hasty(hasty_service: Service, crash_upstream: Upstream) -> Iterator[Endpoint]:
    yield _make_endpoint(hasty_service, crash_upstream)
    assert crash_upstream.faults == []


def _make_endpoint(service: Service, upstream: Upstream) -> Endpoint:
    """Make an endpoint for one test, on a service that runs again if the last test has ended it."""
    upstream.reset()
    service.ensure_started()
    return make_new_endpoint(service, upstream)


# --- kill -9 ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "victims", [("proxy",), ("recorder",), ("proxy", "recorder"), ("web",)], ids="-".join
)
def test_kill_9_in_the_middle_of_50_streams_loses_and_doubles_nothing(
    crashing: Endpoint, open_streams: Callable[..., list[Stream]], victims: tuple[Child, ...]
) -> None:
    streams = open_streams(crashing, 50)
    finished, open_still = streams[:20], streams[20:]
    for stream in finished:
        stream.finish()
    killed = crashing.service.kill9(*victims)
    if "proxy" in victims:
        for stream in open_still:
            stream.assert_cut()
    else:
        for stream in open_still:
            stream.finish()
    crashing.service.wait_restarted(killed)

    rows = rows_by_number(crashing.rows())
    seen = {number_of(request) for request in crashing.upstream.requests}
    assert set(rows) == seen == set(range(50))
    for stream in finished:
        assert_complete(rows[stream.number], stream)
    for stream in open_still:
        check = assert_interrupted_by_restart if "proxy" in victims else assert_complete
        check(rows[stream.number], stream)


def test_kill_9_under_flowing_traffic_loses_and_doubles_nothing(ending: Endpoint) -> None:
    upstream = ending.upstream
    upstream.choose = lambda seen: sse(_events(number_of(seen)))
    whole: dict[int, bytes] = {}

    def call(number: int) -> None:
        with suppress(Cut, ConnectionError), ending.connect() as client:
            response = client.exchange(numbered(ending, number))
            if response.status == 200 and not response.cut:
                whole[number] = response.body

    kills: tuple[tuple[Child, ...], ...] = (("proxy",), ("recorder",), ("proxy", "recorder"))
    with _Workers(call, range(250)):
        for turn, victims in enumerate(kills, 1):
            _wait_for_traffic(upstream, 50 * turn)
            ending.service.wait_restarted(ending.service.kill9(*victims))

    upstream.faults.clear()  # a killed proxy may leave half a request behind
    rows = rows_by_number(ending.rows())
    seen = {number_of(request) for request in upstream.requests}
    assert seen <= set(rows)
    # A call is kept before it is forwarded: the proxy can die between the two.
    for number in set(rows) - seen:
        assert (rows[number]["outcome"], rows[number]["status_code"]) == ("proxy_restarted", None)
    for number, body in whole.items():
        assert body_bytes(rows[number]["response_body"]) == body
    for number in set(rows) - set(whole):
        stored = body_bytes(rows[number]["response_body"]) or b""
        assert b"".join(_events(number)).startswith(stored)
    assert ending.service.unreadable_files() == []


def _wait_for_traffic(upstream: Upstream, count: int) -> None:
    wait_until(lambda: len(upstream.requests) > count, f"{count} requests at the upstream")


def test_kill_9_of_up_leaves_no_orphan_and_the_next_start_keeps_everything(
    hasty: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service = hasty.service
    streams = open_streams(hasty, 10)
    for stream in streams[:5]:
        stream.finish()
    children = [psutil.Process(pid) for pid in service.pids().values()]
    assert len(children) == 4
    service.signal(signal.SIGKILL)
    service.wait()
    wait_until(lambda: all(map(is_over, children)), "the end of the children")
    for stream in streams[5:]:
        stream.assert_cut()

    service.start()
    rows = rows_by_number(hasty.rows())
    assert set(rows) == set(range(10))
    for stream in streams[:5]:
        assert_complete(rows[stream.number], stream)
    for stream in streams[5:]:
        assert_interrupted_by_restart(rows[stream.number], stream)


def test_a_start_right_after_a_kill_waits_for_what_the_last_one_still_finishes(
    ending: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service = ending.service
    (stream,) = open_streams(ending, 1)
    old = [psutil.Process(pid) for pid in service.pids().values()]
    recorder = psutil.Process(service.pids()["recorder"])
    service.kill()
    try:
        service.start()
        service.wait_until(
            lambda: f"another recorder (process {recorder.pid}) is still at work" in service.output,
            "a recorder that waits",
        )
        stream.finish()
        assert_complete(rows_by_number(ending.rows())[0], stream)
    finally:
        recorder.kill()  # it would go on for as long as streams may
    wait_until(lambda: all(map(is_over, old)), "the end of the old children")
    ending.upstream.choose = lambda seen: sse(_events(number_of(seen)))
    assert ending.send(numbered(ending, 1)).status == 200
    assert set(rows_by_number(ending.rows())) == {0, 1}


def test_a_second_up_on_the_same_data_is_refused_with_the_pid_of_the_first(
    crash_service: Service, crash_upstream: Upstream
) -> None:
    second = Service(crash_service.data_dir.parent, crash_upstream.url)
    try:
        with pytest.raises(AssertionError, match=str(crash_service.pid)):
            second.start()
    finally:
        second.close()
    assert crash_service.health() == 200


# --- an ordered stop ----------------------------------------------------------------------------


def _refuses(service: Service) -> bool:
    try:
        service.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def assert_spool_empty(service: Service) -> None:
    assert service.spool_files() == []
    assert service.unreadable_files() == []


def test_sigterm_lets_streams_in_flight_end_and_exits_0(
    ending: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service, upstream = ending.service, ending.upstream
    with ending.connect() as idle, ending.connect() as waiting, ending.connect() as following:
        key = ("authorization", f"Bearer {service.create_key('following')}")
        following.send(request("GET", "/live/events", [("host", service.host), key]))
        events = following.iter_body(following.read_response_head())
        assert next(events).startswith(b"retry: ")  # an open page, which would go on for ever
        upstream.choose = lambda seen: answer(200, message_json())
        idle.exchange(numbered(ending, 100))
        not_yet = Gate()
        upstream.choose = lambda seen: answer(200, message_json()).preceded_by(not_yet)
        waiting.send(numbered(ending, 101))
        not_yet.wait_reached()
        streams = open_streams(ending, 10)

        service.signal(signal.SIGTERM)
        assert idle.is_closed_by_peer()
        following.read_to_end()  # which comes while others are still in flight
        wait_until(lambda: _refuses(service), "the front door to be closed")
        not_yet.open()
        last = waiting.read_response()
        assert (last.body, last.header("connection")) == (message_json(), "close")
        for stream in streams:
            stream.finish()
        assert service.wait() == 0

    rows = rows_by_number(service.rows(ending.slug))
    assert set(rows) == {*range(10), 100, 101}
    assert {row["outcome"] for row in rows.values()} == {"complete"}
    for stream in streams:
        assert_complete(rows[stream.number], stream)
    assert_spool_empty(service)


def test_sigterm_to_the_whole_process_group_drains_as_well(
    ending: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    """As service managers do it: every process is told, and more than once."""
    service = ending.service
    streams = open_streams(ending, 3)
    for _ in range(3):
        os.killpg(service.pid, signal.SIGTERM)
    wait_until(lambda: _refuses(service), "the front door to be closed")
    os.killpg(service.pid, signal.SIGTERM)
    for stream in streams:
        stream.finish()
    assert service.wait() == 0
    rows = rows_by_number(service.rows(ending.slug))
    assert set(rows) == {0, 1, 2}
    for stream in streams:
        assert_complete(rows[stream.number], stream)
    assert_spool_empty(service)


def test_a_stream_that_outlasts_the_drain_is_cut_and_has_an_entry(
    hasty: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service = hasty.service
    streams = open_streams(hasty, 3)
    assert service.terminate() == 0
    for stream in streams:
        stream.assert_cut()
    rows = rows_by_number(service.rows(hasty.slug))
    assert set(rows) == {0, 1, 2}
    for stream in streams:
        assert_interrupted_by_restart(rows[stream.number], stream)
    assert_spool_empty(service)


def test_a_second_interrupt_ends_at_once_and_the_next_start_keeps_everything(
    ending: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service = ending.service
    streams = open_streams(ending, 3)
    service.signal(signal.SIGINT)
    wait_until(lambda: _refuses(service), "the front door to be closed")
    service.signal(signal.SIGINT)
    service.wait()
    for stream in streams:
        stream.assert_cut()
    service.start()
    rows = rows_by_number(ending.rows())
    assert set(rows) == {0, 1, 2}
    for stream in streams:
        assert_interrupted_by_restart(rows[stream.number], stream)


# --- when nothing can be written ----------------------------------------------------------------


def test_a_locked_trace_database_delays_entries_and_fails_nobody(crashing: Endpoint) -> None:
    crashing.send(numbered(crashing, 0))
    assert len(crashing.rows()) == 1
    [path] = crashing.service.data_dir.glob("traces/*/traces.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("begin exclusive")
        for number in range(1, 20):
            assert crashing.send(numbered(crashing, number)).status == 200
        database.execute("rollback")
    assert set(rows_by_number(crashing.rows())) == set(range(20))
    crashing.service.wait_healthy()  # told while it lasted, if it lasted long enough to be noticed


def test_a_spool_that_cannot_be_written_fails_nobody_and_is_loud(crashing: Endpoint) -> None:
    service = crashing.service
    crashing.send(numbered(crashing, 0))
    assert set(rows_by_number(crashing.rows())) == {0}
    complaints = service.output.count("spool")
    spool = service.data_dir / "spool"
    shutil.rmtree(spool)
    spool.touch()
    assert crashing.send(numbered(crashing, 1)).body == message_json()
    crashing.upstream.enqueue(sse(_events(2)))
    assert crashing.send(numbered(crashing, 2)).body == b"".join(_events(2))
    service.wait_until(lambda: service.output.count("spool") > complaints, "a complaint")
    spool.unlink()
    assert crashing.send(numbered(crashing, 3)).status == 200
    assert set(rows_by_number(service.wait_for_rows(2, crashing.slug))) == {0, 3}


def test_on_a_full_disk_calls_go_through_and_are_entries_without_their_request(
    upstream: Upstream, service_factory: ServiceFactory
) -> None:
    service = service_factory(upstream.url, DISK_RESERVE="1000000TB")
    service.wait_until(lambda: "disk" in service.output, "a complaint")
    endpoint = Endpoint(service, upstream, "default")
    upstream.enqueue(sse(_events(2)))
    assert endpoint.send(numbered(endpoint, 2)).body == b"".join(_events(2))
    row = endpoint.row()
    assert (row["outcome"], row["request_body"]) == ("complete", None)
    assert body_bytes(row["response_body"]) == b"".join(_events(2))
    assert row["input_tokens"] == 11


# --- chaos --------------------------------------------------------------------------------------


class _Workers:
    """Some threads that work through the numbers; leaving the block waits for them all and raises
    the first error that one of them met."""

    def __init__(self, work: Callable[[int], None], numbers: Sequence[int], count: int = 6) -> None:
        self._work = work
        self._numbers = iter(numbers)
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a call hangs"
        if self._errors and error is None:
            raise self._errors[0]

    def _run(self) -> None:
        while not self._errors:
            with self._lock:
                number = next(self._numbers, None)
            if number is None:
                return
            try:
                self._work(number)
            except BaseException as error:  # raised again by the test's thread
                self._errors.append(error)


def _bad_chunk(events: list[bytes]) -> Script:
    return Script(
        (head(200, [("transfer-encoding", "chunked")]), chunk(events[0]), b"nonsense\r\n")
    )


def _gzipped(events: list[bytes]) -> Script:
    packed = gzip.compress(b"".join(events))
    headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")]
    return chunked(200, [packed[:40], packed[40:]], headers)


JSON_HEADERS = [("content-type", "application/json")]
SCRIPTS: dict[str, Callable[[list[bytes]], Script]] = {
    "sse": sse,
    "json": lambda events: answer(200, message_json()),
    "gzip": _gzipped,
    "interim": lambda events: sse(events).preceded_by(head(100), head(103, [("link", "<x>")])),
    "trailers": lambda events: chunked(200, events, trailers=[("x-sum", "1")]),
    "until-close": lambda events: answer(200, message_json(), framing="close"),
    "announced-close": lambda events: answer(
        200, message_json(), [*JSON_HEADERS, ("connection", "close")]
    ).then(CLOSE),
    "429": lambda events: answer(429, error_json("rate_limit_error", "slow")),
    "529": lambda events: answer(529, b"", []),
    "error-event": lambda events: sse(
        [*events[:2], event("error", error={"type": "api_error", "message": "x"})]
    ),
    "garbage": lambda events: Script((b"\x00\x01garbage\r\n\r\n", CLOSE)),
    "bad-chunk": _bad_chunk,
    "cut": lambda events: cut_sse(events[:4]),
    "reset": lambda events: cut_sse(events[:4], RESET),
    "no-answer": lambda events: Script((CLOSE,)),
    "early": lambda events: Script(answer(400, b"{}").steps, early=True),
    "stall": lambda events: Script((STALL,)),
    "stall-midway": lambda events: cut_sse(events[:3], STALL),
}
LEAVING = {"leave-before": "stall", "leave-during": "stall-midway"}
CLIENTS = (
    *("polite", "polite", "polite", "chunked", "expect"),
    *("slow", "old", "two-calls", "half-close"),
)
ABORTED = ("abort-upload", *LEAVING)


@dataclass
class Chaos:
    """Calls of every kind, well and badly behaved at both ends, each decided by its number."""

    upstream: Upstream
    service: Service
    seed: int
    heard: dict[int, Response] = field(default_factory=dict)
    """What clients got that heard a whole answer."""

    def plan(self, number: int) -> tuple[str, str]:
        """Choose how the client and the upstream behave in a call."""
        dice = random.Random(f"{self.seed} {number}")  # noqa: S311
        if dice.random() < 0.25:
            client = dice.choice(ABORTED)
            return client, LEAVING.get(client, "sse")
        scripts = [name for name in SCRIPTS if not name.startswith("stall")]
        return dice.choice(CLIENTS), dice.choice(scripts)

    def choose(self, seen: SeenRequest) -> Script:
        number = number_of(seen)
        return SCRIPTS[self.plan(number % 10_000)[1]](_events(number % 10_000))

    def call(self, number: int) -> None:
        """Make the call. That a connection ends is no error here; that it hangs is one."""
        endpoint = Endpoint(self.service, self.upstream, f"chaos-{number % 4}")
        how = self.plan(number)[0]
        with suppress(Cut, ConnectionError), endpoint.connect() as client:
            if how == "two-calls":  # the second on the same connection
                self._hear(number, client.exchange(numbered(endpoint, number)))
                self._hear(number + 10_000, client.exchange(numbered(endpoint, number + 10_000)))
            elif how == "abort-upload":
                client.send(numbered(endpoint, number)[:-3])
            elif how in LEAVING:
                self._leave(client, endpoint, number)
            else:
                self._send(client, endpoint, number, how)
                self._hear(number, client.read_response())

    def _send(self, client: RawClient, endpoint: Endpoint, number: int, how: str) -> None:
        data = numbered(endpoint, number)
        top, _, body = data.partition(b"\r\n\r\n")
        target = endpoint.target(f"/v1/messages?n={number}")
        if how == "chunked":
            headers = [*REQUEST_HEADERS, ("transfer-encoding", "chunked")]
            client.send(request("POST", target, headers))
            client.send_chunk(body[:5])
            client.send_chunk(body[5:])
            client.send(last_chunk([("x-sum", "1")]))
        elif how == "expect":
            client.send(top + b"\r\nexpect: 100-continue\r\n\r\n")
            if client.read_head().status == 100:
                client.send(body)
        elif how == "slow":
            for start in range(0, len(data), 50):
                client.send(data[start : start + 50])
        elif how == "old":
            client.send(request("POST", target, REQUEST_HEADERS, body, version="1.0"))
        else:
            client.send(data)
        if how == "half-close":
            client.half_close()

    def _leave(self, client: RawClient, endpoint: Endpoint, number: int) -> None:
        client.send(numbered(endpoint, number))
        wait_until(
            lambda: self.was_seen(number) or select.select([client.socket], [], [], 0)[0],
            f"call {number} at the upstream",
        )
        if self.plan(number)[0] == "leave-during":
            response = client.read_response_head()
            if number % 2 == 0:  # the others are buffered: no body before it is whole
                next(client.iter_body(response), None)
        if number % 3:
            client.reset()

    def _hear(self, number: int, response: Response) -> None:
        tells_its_end = response.head.framing("POST") != "close"
        if tells_its_end and not response.cut and response.header("x-taximeter-error") is None:
            self.heard[number] = response

    def was_seen(self, number: int) -> bool:
        return any(number_of(seen) == number for seen in list(self.upstream.requests))


def test_in_chaos_there_is_one_entry_for_each_request_that_the_upstream_saw(
    ending: Endpoint,
) -> None:
    service, upstream = ending.service, ending.upstream
    for number in range(4):
        service.create_endpoint(f"chaos-{number}", "buffered" if number % 2 else "live")
    tracebacks = service.output.count("Traceback")
    chaos = Chaos(upstream, service, seed=20261121)
    upstream.choose = chaos.choose

    with _Workers(chaos.call, range(150)):
        _wait_for_traffic(upstream, 75)
        service.signal(signal.SIGTERM)
    assert service.wait() == 0
    service.start()
    with _Workers(chaos.call, range(1000, 1075)):
        pass
    upstream.refuse()
    with _Workers(lambda number: _assert_502(chaos, number), range(2000, 2020)):
        pass
    upstream.accept()
    with _Workers(chaos.call, range(3000, 3075)):
        pass

    rows = rows_by_number(service.settled_rows("chaos-%"))
    refused = {number for number, row in rows.items() if row["outcome"] == "upstream_unreachable"}
    seen = [number_of(request) for request in upstream.requests]
    assert len(seen) == len(set(seen))
    assert set(rows) - refused == set(seen)
    assert refused == set(range(2000, 2020))
    for number, response in chaos.heard.items():
        _assert_same(rows[number], response)
    assert service.unreadable_files() == []
    assert service.output.count("Traceback") == tracebacks


def _assert_502(chaos: Chaos, number: int) -> None:
    endpoint = Endpoint(chaos.service, chaos.upstream, f"chaos-{number % 4}")
    assert endpoint.send(numbered(endpoint, number)).status == 502


def _assert_same(row: Row, response: Response) -> None:
    """The entry holds what the client heard."""
    body = response.body
    if response.header("content-encoding") == "gzip":
        body = gzip.decompress(body)
    assert (row["status_code"], body_bytes(row["response_body"]) or b"") == (response.status, body)
