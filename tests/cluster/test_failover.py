"""A replica takes the place of a primary that dies, chosen by Redis Sentinel, and no call is lost."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import redis

from cluster import server
from cluster.shipper import Shipper
from tests.cluster.spools import make_receiver, names, spool
from tests.redis_server import SERVER
from tests.upstream import kept_port, wait_until

pytestmark = pytest.mark.live  # three servers


class Servers:
    """A primary, a replica and a Sentinel on these ports of the loopback address."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        if SERVER is None:
            pytest.skip("there is no redis-server; Debian's package of that name brings it")
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.primary, self.replica, self._sentinel = (redis.Redis(port=port) for port in ports)
        here = ("--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0", "--port")
        self._start(SERVER, *here, str(ports[0]))
        self._start(SERVER, *here, str(ports[1]), "--replicaof", "127.0.0.1", str(ports[0]))
        # A Sentinel that begins to choose before there is a replica to be chosen waits for twice the
        # failover timeout until it does so again.
        (folder / "sentinel.conf").write_text(
            f"bind 127.0.0.1\nport {ports[2]}\nsentinel monitor main 127.0.0.1 {ports[0]} 1\n"
            "sentinel down-after-milliseconds main 200\nsentinel failover-timeout main 5000\n"
        )
        self.url = f"redis+sentinel://127.0.0.1:{ports[2]}/main"

    def begin_watch(self) -> None:
        """Start the Sentinel once the replica has all of the primary, and wait until it knows both."""

        def is_whole() -> bool:
            with suppress(redis.RedisError):
                return self.replica.info("replication").get("master_link_status") == "up"
            return False

        def is_known() -> bool:
            with suppress(redis.RedisError):
                (found,) = self._sentinel.sentinel_slaves("main") or [{}]
                return found.get("master-link-status") == "ok"
            return False

        wait_until(is_whole, "the replica at its primary")
        self._start(str(SERVER), "sentinel.conf", "--sentinel")
        wait_until(is_known, "the replica at the Sentinel")

    def kill_primary(self) -> None:
        self._processes[0].kill()

    def _start(self, *command: str) -> None:
        with (self._folder / "log").open("ab") as output:
            process = subprocess.Popen(  # noqa: S603
                command, cwd=self._folder, stdout=output, stderr=output
            )
        self._processes.append(process)

    def stop(self) -> None:
        for client in (self.primary, self.replica, self._sentinel):
            client.close()
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:  # Redis cannot be told to let the kernel choose
        ports = [stack.enter_context(kept_port()) for _ in range(3)]
        servers = Servers(tmp_path_factory.mktemp("servers"), ports)
        stack.callback(servers.stop)
        servers.begin_watch()
        yield servers


def test_the_log_goes_on_at_the_replica_when_the_primary_dies(servers, run, root, tmp_path):
    shipping, receiving = server.connect(servers.url), server.connect(servers.url)
    shipper = Shipper(root, shipping, time.monotonic)
    receiver = make_receiver(tmp_path / "main", receiving)
    spool(run, "0001")
    shipper.run_round()
    receiver.run_round()
    servers.kill_primary()
    spool(run, "0002")

    def has_both() -> bool:
        for work in (shipper.run_round, receiver.run_round):
            try:
                work()
            except redis.RedisError:
                shipper.disconnect()
        return names(tmp_path / "main") == ["0001~org-1.done", "0002~org-1.done"]

    wait_until(has_both, "both calls, by way of the replica")
    assert servers.replica.role()[0] == b"master"
    shipping.close()
    receiving.close()
