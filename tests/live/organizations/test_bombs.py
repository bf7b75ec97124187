"""Bodies that are far more than they seem: they cost their sender's entry its text, and nobody else
anything."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from tests.live.organizations.world import World
from tests.live.service import REQUEST_HEADERS, Endpoint, Service

MB = 1_000_000
BOMB = gzip.compress(gzip.compress(bytes(64 * 1024 * 1024)))
BOMB_HEADERS = [*REQUEST_HEADERS, ("Content-Encoding", "gzip, gzip")]


@contextmanager
def watching(service: Service) -> Iterator[list[int]]:
    """The largest resident memory of the recorder, and every answer of /healthz that is not 200."""
    recorder = psutil.Process(service.pids()["recorder"])
    seen, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            seen[0] = max(seen[0], recorder.memory_info().rss)
            status = service.health()
            if status != 200:
                seen.append(status or 0)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def test_bombs_take_no_memory_and_no_disk_and_delay_nobody(world: World) -> None:
    service = world.service
    for person, name in ((world.ann, "bombed"), (world.cid, "beside")):
        assert person.ask("POST", "/proxy-endpoints", json={"name": name}).status_code == 201
    bomber = Endpoint(service, world.upstream, "bombed")
    with watching(service) as seen:
        for _ in range(20):
            assert bomber.send(bomber.message(BOMB, BOMB_HEADERS)).status == 200
        assert service.send(world.message("beside")).status == 200
        service.wait_spool_empty()
    peak, *ill = seen
    assert peak < 300 * MB
    assert ill == []
    size = sum(path.stat().st_size for path in service.data_dir.rglob("*") if path.is_file())
    assert size < 100 * MB

    assert len(world.rows("beside")) == 1
    rows = [
        (row["request_body"], row["body_notes"], row["input_tokens"])
        for row in world.rows("bombed")
    ]
    assert rows == [(BOMB, "request as received: too large to decode", 11)] * 20
