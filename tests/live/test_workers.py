"""Two workers of the proxy: limits over both, and what the end of one of them means for the other."""

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Service
from tests.rawclient import Cut, RawClient, Response
from tests.upstream import Gate, Upstream, answer, message_events, sse

LIMIT = 300


@pytest.fixture(scope="module")
def workers_upstream() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def service(
    workers_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One service for all tests, which lives on whatever happens to its workers, and closes no connection
    because a client or a successor takes its time."""
    folder = tmp_path_factory.mktemp("workers")
    settings = {"WORKERS": "2", "DRAIN_SECONDS": "600", "REQUEST_IDLE_SECONDS": "600"}
    with Service(folder, workers_upstream.url, **settings) as service:
        yield service


@pytest.fixture
def make_endpoint(service: Service, workers_upstream: Upstream) -> Callable[[], Endpoint]:
    workers_upstream.reset()
    return lambda: make_new_endpoint(service, workers_upstream)


@pytest.fixture
def endpoint(make_endpoint: Callable[[], Endpoint]) -> Endpoint:
    return make_endpoint()


@pytest.fixture
def connect_to_both(service: Service) -> Iterator[Callable[[], dict[int, list[RawClient]]]]:
    """Opens ten connections, or more, of which each worker has some; returns them by their worker."""
    with ExitStack() as stack:

        def connect() -> dict[int, list[RawClient]]:
            by_port: dict[int, RawClient] = {}
            found: dict[int, list[RawClient]] = {}

            def all_are_accepted() -> bool:
                found.update((pid, find_clients(pid, by_port)) for pid in service.worker_pids())
                return sum(map(len, found.values())) == len(by_port)

            def enough_are_accepted() -> bool:
                for _ in range(max(2, 10 - len(by_port))):
                    client = stack.enter_context(service.connect())
                    by_port[client.socket.getsockname()[1]] = client
                service.wait_until(all_are_accepted, lambda: f"connections, not {found}")
                return len(found) == 2 and all(len(clients) > 1 for clients in found.values())

            service.wait_until(enough_are_accepted, "connections at both workers")
            return found

        yield connect


def find_clients(pid: int, by_port: dict[int, RawClient]) -> list[RawClient]:
    """Return those of the clients whose connections a process has."""
    ports = {
        each.raddr.port
        for each in psutil.Process(pid).net_connections()
        if each.status == psutil.CONN_ESTABLISHED and each.raddr
    }
    return [by_port[port] for port in ports & by_port.keys()]


def test_limits_are_exact_over_both_workers(
    endpoint: Endpoint, connect_to_both: Callable[[], dict[int, list[RawClient]]]
) -> None:
    statuses: list[int] = []

    def call(client: RawClient) -> None:
        statuses.extend(client.exchange(endpoint.message()).status for _ in range(90))

    clients = [client for each in connect_to_both().values() for client in each[:2]]
    threads = [threading.Thread(target=call, args=[client]) for client in clients]
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    minutes = int((time.monotonic() - began_s) / 60)  # none, unless the machine is very busy
    assert len(clients) == 4
    admitted = statuses.count(200)
    assert LIMIT <= admitted <= LIMIT * (1 + minutes)
    assert statuses.count(429) == 360 - admitted
    assert len(endpoint.rows()) == admitted


def hold_streams(endpoint: Endpoint) -> Gate:
    """Let the responses of the upstream stand at a gate after their first events."""
    gate, events = Gate(), message_events(["one", "two"])
    endpoint.upstream.choose = lambda _seen: sse([*events[:3], gate, *events[3:]])
    return gate


def begin(endpoint: Endpoint, client: RawClient) -> Iterator[bytes]:
    """Begin a call whose response stands at the gate; return the rest of it."""
    client.send(endpoint.message())
    pieces = client.iter_body(client.read_response_head())
    next(pieces)
    return pieces


def test_kill_9_of_a_worker_cuts_its_own_streams_only_and_loses_no_row(
    service: Service,
    endpoint: Endpoint,
    connect_to_both: Callable[[], dict[int, list[RawClient]]],
) -> None:
    gate = hold_streams(endpoint)
    streams = {
        pid: [begin(endpoint, client) for client in clients]
        for pid, clients in connect_to_both().items()
    }
    victim, other = streams
    psutil.Process(victim).kill()
    for pieces in streams[victim]:
        with pytest.raises(Cut):
            list(pieces)
    gate.open()
    for pieces in streams[other]:
        assert b"message_stop" in b"".join(pieces)
    service.wait_until(
        lambda: len(service.worker_pids() - {victim}) == 2, "another worker in its place"
    )
    assert other in service.worker_pids()
    service.wait_healthy()
    outcomes = sorted(row["outcome"] for row in endpoint.rows())
    assert outcomes == (
        ["complete"] * len(streams[other]) + ["proxy_restarted"] * len(streams[victim])
    )


@contextmanager
def calling_all_the_time(endpoints: Sequence[Endpoint]) -> Iterator[list[Response]]:
    """Let three clients make calls, on connections that they keep, to so many endpoints that no limit is
    reached; yield the responses."""
    responses: list[Response] = []
    is_over = threading.Event()
    failures: list[BaseException] = []

    def call_until_over(own: Sequence[Endpoint]) -> None:
        messages = itertools.cycle(endpoint.message() for endpoint in own)
        try:
            while not is_over.is_set():
                with own[0].connect() as client:
                    is_kept = True
                    while is_kept and not is_over.wait(0.1):
                        response = client.exchange(next(messages))
                        responses.append(response)
                        is_kept = response.header("connection") != "close"
        except BaseException as error:  # raised below, in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=call_until_over, args=[endpoints[n::3]]) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield responses
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def test_a_restart_of_the_workers_one_by_one_fails_no_call(
    service: Service,
    make_endpoint: Callable[[], Endpoint],
    connect_to_both: Callable[[], dict[int, list[RawClient]]],
) -> None:
    endpoint, *others = [make_endpoint() for _ in range(13)]
    by_worker = connect_to_both()
    old = set(by_worker)
    first, second = (clients[0] for clients in by_worker.values())
    idle = by_worker[next(iter(by_worker))][1]
    gate = hold_streams(endpoint)
    streams = [begin(endpoint, first), begin(endpoint, second)]

    endpoint.upstream.choose = lambda _seen: answer(200, body=b"{}")
    with calling_all_the_time(others) as responses:
        service.signal(signal.SIGUSR1)
        service.wait_until(lambda: "workers are replaced" in service.output, "two successors")
        assert old < service.worker_pids(), "what is in flight ends where it began"
        before = len(responses)
        service.wait_until(lambda: len(responses) > before + 20, "calls through the successors")
    last = idle.exchange(endpoint.message())
    assert (last.status, last.header("connection")) == (200, "close"), "it was not closed before"
    gate.open()
    for pieces in streams:
        assert b"message_stop" in b"".join(pieces)
    for clients in by_worker.values():
        for client in clients:
            client.close()
    service.wait_until(lambda: not old & service.worker_pids(), "the end of the old workers")
    assert {(each.status, each.cut) for each in responses} == {(200, False)}
    service.wait_healthy()
    rows = [row for each in (endpoint, *others) for row in each.rows()]
    assert len(rows) == len(responses) + 3
    assert {row["outcome"] for row in rows} == {"complete"}
