"""A cluster on this machine: a Redis server, the node with the pages, and proxy nodes."""

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis

from bench.load import (
    CALLS_PER_SLUG,
    HOST,
    BenchError,
    Proxy,
    UsageLog,
    free_port,
    make_endpoints,
    process_cpu_s,
    running,
    service,
)
from extensions.cluster import log, server

SERVERS = ("redis-server", "valkey-server")
PATIENCE_S, POLL_S = 120.0, 0.02
CLUSTER_PARTS = ("proxy", "shipper", "redis", "receiver", "recorder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster with its data directory."""

    data: Path
    proxy: Proxy

    def has_files(self, pattern: str) -> bool:
        """Return whether the spool of a proxy node has files that match ``pattern``."""
        return any(self.data.glob(f"outgoing/*/{pattern}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster. The node ``home`` records, and has the pages."""

    client: server.Client
    redis_pid: int
    home: Node
    nodes: Sequence[Node]
    log: UsageLog

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU seconds of each part since its start, with the proxy nodes added up."""
        proxies = [node.proxy.cpu_s() for node in self.nodes]
        home = self.home.proxy.cpu_s()
        return {
            "proxy": sum(each["proxy"] for each in proxies),
            "shipper": sum(each["cluster"] for each in proxies),
            "redis": process_cpu_s(self.redis_pid),
            "receiver": home["cluster"],
            "recorder": home["recorder"],
        }

    def count_entries(self) -> int:
        """Return the number of entries of the log on the server."""
        pipeline = self.client.pipeline(transaction=False)
        for bucket in range(log.BUCKETS):
            pipeline.xlen(log.stream_name(bucket))
        return sum(pipeline.execute())

    def count_commands(self) -> int:
        """Return the number of commands that the server has run, without the limits' script and this one."""
        stats: Mapping[str, Mapping[str, int]] = self.client.info("commandstats")
        return sum(each["calls"] for name, each in stats.items() if name != "cmdstat_info")

    @contextmanager
    def recorder_held(self) -> Iterator[None]:
        """Stop receiving and recording until the block ends."""
        pids = [self.home.proxy.pids[part] for part in ("cluster", "recorder")]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def wait_shipped(self) -> None:
        """Wait until all calls are on the server. Raises BenchError."""
        self._wait_until_gone("*.done")

    def wait_forgotten(self) -> None:
        """Wait until proxy nodes have removed the files that they shipped. Raises BenchError."""
        self._wait_until_gone("*~*")

    def _wait_until_gone(self, pattern: str) -> None:
        wait_for(lambda: not any(node.has_files(pattern) for node in self.nodes), f"no {pattern}")


def find_server() -> str | None:
    """Return the path of a Redis or Valkey server program, or None."""
    return next((found for name in SERVERS if (found := shutil.which(name))), None)


@contextmanager
def running_cluster(
    folder: Path, upstream_port: int, calls: int, count: int = 1, spare: int = 1
) -> Iterator[Cluster]:
    """Run a cluster of ``count`` proxy nodes. Raises BenchError.

    It has so many endpoints that ``calls`` calls reach no rate limit, and ``spare`` more."""
    home = folder / "home"
    home.mkdir(parents=True)
    trace_file, paths = make_endpoints(home / "data", -(-calls // CALLS_PER_SLUG) + spare)
    with ExitStack() as stack:
        url, redis_pid = stack.enter_context(running_server(folder))
        client = server.connect(url)
        stack.callback(client.close)
        usage_log = stack.enter_context(closing(UsageLog(trace_file)))

        def start(name: str, roles: str) -> Node:
            node = folder / name
            node.mkdir(exist_ok=True)
            settings = {"TAXIMETER_CLUSTER": url, "TAXIMETER_ROLE": roles}
            started = service(node, upstream_port, paths, settings=settings)
            return Node(data=node / "data", proxy=stack.enter_context(started))

        found = Cluster(
            client=client,
            redis_pid=redis_pid,
            home=start("home", "recorder,web"),
            nodes=[start(f"node-{number}", "proxy") for number in range(count)],
            log=usage_log,
        )
        for node in found.nodes:
            wait_for(lambda at=node: count_endpoints(at) > len(paths), "slugs on a proxy node")  # type: ignore[misc]
        yield found


@contextmanager
def running_server(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a server with the settings that a cluster needs; yield its URL and its process id.

    Raises BenchError."""
    program = find_server()
    if program is None:
        raise BenchError(f"there is none of {', '.join(SERVERS)}")
    port = free_port()
    options = ["--bind", HOST, "--port", str(port), "--dir", str(folder)]
    options += ["--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"]
    with running([program, *options], folder / "redis.log") as process:
        with closing(redis.Redis(host=HOST, port=port)) as client:
            wait_for(lambda: _answers(client), "a Redis server")
        yield f"redis://{HOST}:{port}", process.pid


def _answers(client: "redis.Redis") -> bool:
    with suppress(redis.RedisError):
        return bool(client.ping())
    return False


def count_endpoints(node: Node) -> int:
    """Return the number of endpoints that a proxy node knows."""
    with closing(sqlite3.connect(f"{(node.data / 'control.db').as_uri()}?mode=ro", uri=True)) as db:
        return int(db.execute("select count(*) from proxy_endpoints").fetchone()[0])


def wait_for(is_there: Callable[[], bool], what: str) -> None:
    """Wait until ``is_there`` returns True. Raises BenchError, which names ``what``, if that takes too
    long."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_there():
        if time.monotonic() > deadline_s:
            raise BenchError(f"waited in vain for {what}")
        time.sleep(POLL_S)
