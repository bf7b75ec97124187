"""Bodies that are far more than they seem: they cost their sender's entry its text, and nobody else
anything."""

import gzip
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psutil

from store.control.database import ControlDatabase
from tests.live.conftest import ServiceFactory
from tests.live.service import REQUEST_HEADERS, Endpoint, Service
from tests.proxy_endpoints import create_endpoint
from tests.upstream import Upstream, answer, message_json

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


def make_organization(service: Service) -> str:
    command = [
        sys.executable,
        "-m",
        "manage.cli.main",
        "users",
        "create",
        "--email",
        "b@example.org",
    ]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "--json"], env=service.environment, capture_output=True, check=True
    )
    organization_id: str = json.loads(done.stdout)["organization_id"]
    with ControlDatabase(service.data_dir / "control.db") as control:
        create_endpoint(control, organization_id, "other", "other")
    return organization_id


def test_bombs_take_no_memory_and_no_disk_and_delay_nobody(
    upstream: Upstream, service_factory: ServiceFactory
) -> None:
    service = service_factory(upstream.url)
    organization_id = make_organization(service)
    upstream.choose = lambda seen: answer(200, message_json())
    bomber = Endpoint(service, upstream, "default")
    other = Endpoint(service, upstream, "other")
    with watching(service) as seen:
        for _ in range(20):
            assert bomber.send(bomber.message(BOMB, BOMB_HEADERS)).status == 200
        assert other.send().status == 200
        service.wait_spool_empty()
    peak, *ill = seen
    assert peak < 300 * MB
    assert ill == []
    size = sum(path.stat().st_size for path in service.data_dir.rglob("*") if path.is_file())
    assert size < 100 * MB

    paths = {path.parent.name: path for path in service.data_dir.glob("traces/*/traces.db")}
    with closing(sqlite3.connect(paths.pop(organization_id))) as db:
        assert db.execute("select count(*) from usage").fetchone() == (1,)
    with closing(sqlite3.connect(paths.popitem()[1])) as db:
        rows = db.execute(
            "select request_body, body_notes, input_tokens, count(*) from usage_log group by 1, 2, 3"
        ).fetchall()
    assert rows == [(BOMB, "request as received: too large to decode", 11, 20)]
