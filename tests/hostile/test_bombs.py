"""Bodies that are far more than they seem: they cost their sender's entry its text, and nobody else
anything."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from tests.live.conftest import make_new_endpoint
from tests.live.service import REQUEST_HEADERS, Endpoint, Service, body_bytes

MB = 1_000_000
BOMB_HEADERS = [*REQUEST_HEADERS, ("Content-Encoding", "gzip, gzip")]


@contextmanager
def watching(service: Service) -> Iterator[list[int]]:
    """The largest resident memory of the recorder, which is still the same at the end."""
    recorder = psutil.Process(service.pids()["recorder"])
    seen, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            seen[0] = max(seen[0], recorder.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
    assert service.pids()["recorder"] == recorder.pid


def measure_data(service: Service) -> int:
    """Return the bytes on the disk, once nothing is on its way from a file into another."""
    service.wait_spool_empty()
    sizes = []
    for path in service.data_dir.rglob("*"):
        with suppress(FileNotFoundError):  # small files are replaced again and again
            sizes.append(path.stat().st_size)
    return sum(sizes)


def make_bomb() -> bytes:
    return gzip.compress(gzip.compress(bytes(64 * 1024 * 1024), 1))


def test_bombs_take_no_memory_and_no_disk_and_delay_nobody(endpoint: Endpoint) -> None:
    service = endpoint.service
    other = make_new_endpoint(service, endpoint.upstream)
    bomb = make_bomb()
    assert other.send().status == 200  # so that what is there anyway is there
    size_before = measure_data(service)
    with watching(service) as seen:
        for _ in range(20):
            assert endpoint.send(endpoint.message(bomb, BOMB_HEADERS)).status == 200
        assert other.send().status == 200
        rows = endpoint.rows()
    service.wait_healthy()
    assert seen[0] < 300 * MB
    assert measure_data(service) - size_before < 60 * MB, "less than one of them decoded"
    assert [row["outcome"] for row in other.rows()] == ["complete"] * 2
    assert len(rows) == 20
    for row in rows:
        assert body_bytes(row["request_body"]) == bomb
        assert row["body_notes"] == "request as received: too large to decode"
        assert row["input_tokens"] == 11
