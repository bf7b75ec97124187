"""A Redis server of the tests' own, and a clock."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from extensions.cluster import copies, server, state
from store.spool.writer import SpoolRun
from tests.redis_server import RedisServer
from tests.upstream import PATIENCE_S

LIFE_S = 1000.0


@pytest.fixture(autouse=True)
def _databases_are_copies(quick_databases: None) -> None:
    """Save the migrations: most of these tests make a database or two."""


@pytest.fixture(autouse=True)
def patience_with_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for a server on a machine that does much else; what is away refuses at once. And take
    nobody for dead who has not been heard of for some seconds."""
    for name in ("CONNECT_S", "READ_S", "QUICK_S"):
        monkeypatch.setattr(server, name, PATIENCE_S)
    monkeypatch.setattr(copies, "ALIVE_S", LIFE_S)
    monkeypatch.setattr(state, "FRESH_FOR_S", LIFE_S)


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run one server for all tests of a worker. Who asks for it first calls ``renew``."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> RedisServer:
    """Return a server with nothing on it, which a test may kill and set up as it likes."""
    shared_redis.renew()
    return shared_redis


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[server.Client]:
    found = server.connect(redis_server.url)
    yield found
    found.close()


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the spool of a proxy node."""
    return tmp_path / "spool"


@pytest.fixture
def run(root: Path) -> Iterator[SpoolRun]:
    run = SpoolRun(root, reserve_bytes=0)
    yield run
    run.close()
