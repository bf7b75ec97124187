"""A primary, a replica and a Sentinel on loopback, and the links to them.

Servers and Sentinel reach each other through relays, whose ports are the addresses that Sentinel knows. A
node has relays of its own, and what Sentinel tells it is rewritten to them, as where a network translates
addresses. So the links of one node can be cut, and a server from the others while nodes still reach it.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil
import pytest
import redis

from extensions.cluster.tests.relays import Relay, Relays
from tests.redis_server import SERVER
from tests.upstream import kept_port, wait_until

NAME = "main"
# For so long without an answer a server is down: at once, or later than any pause of a busy machine.
DOWN_MS, PATIENT_MS = 500, 600_000
PATIENCE_S = 60.0


class Process:
    """A server or Sentinel with a configuration file, which it writes itself when its role changes."""

    def __init__(
        self, program: str, folder: Path, port: int, options: Sequence[str], *words: str
    ) -> None:
        folder.mkdir()
        self.folder = folder
        self.port = port
        self._command = [program, str(folder / "server.conf"), *words]
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {folder}", *options]
        (folder / "server.conf").write_text("".join(f"{line}\n" for line in lines))
        self.client: Any = redis.Redis(port=self.port, socket_timeout=PATIENCE_S)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "log").open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)  # noqa: S603

        def answers() -> bool:
            with suppress(redis.RedisError):
                return bool(self.client.ping())
            return False

        wait_until(answers, f"the server in {self.folder}", patience_s=PATIENCE_S)

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def suspend(self) -> None:
        psutil.Process(self._process.pid).suspend()

    def resume(self) -> None:
        psutil.Process(self._process.pid).resume()

    def find_log(self) -> Path:
        """Return the append-only file that it writes now."""
        return max(
            self.folder.glob("appendonlydir/*.incr.aof"), key=lambda path: path.stat().st_mtime_ns
        )

    def role(self) -> str:
        """Return its role, or nothing where it does not answer."""
        with suppress(redis.RedisError):
            role: bytes = self.client.role()[0]
            return role.decode()
        return ""


@dataclass(frozen=True, slots=True)
class Link:
    """The way of one node to the servers and the Sentinel."""

    url: str
    relays: Sequence[Relay]

    def do(self, change: Callable[[Relay], None]) -> None:
        """Change all relays of the link."""
        for relay in self.relays:
            change(relay)


class Servers:
    """The servers of a cluster. Which of both is the primary changes.

    ``down_ms``: for so long without an answer a server is down, unless ``noticing_deaths``."""

    def __init__(self, folder: Path, down_ms: int = PATIENT_MS) -> None:
        if SERVER is None:
            pytest.skip("there is no redis-server; Debian's package of that name brings it")
        self._folder = folder
        self._program = SERVER
        self._down_ms = down_ms
        self._stack = ExitStack()
        self._relays = Relays()
        self._all: list[Process] = []
        self.both: list[Process] = []
        self.between: list[Relay] = []

    def __enter__(self) -> Self:
        self._stack.enter_context(self._relays)
        try:
            first = self._start("first")
            self._start("second", f"replicaof 127.0.0.1 {first}")
            # A Sentinel that begins to choose before there is a replica to be chosen waits for twice the
            # failover timeout until it does so again.
            wait_until(self._is_replicated, "the replica at its primary", patience_s=PATIENCE_S)
            self.sentinel = Process(
                self._program,
                self._folder / "sentinel",
                self._stack.enter_context(kept_port()),
                (
                    f"sentinel monitor {NAME} 127.0.0.1 {first} 1",
                    f"sentinel down-after-milliseconds {NAME} {self._down_ms}",
                    f"sentinel failover-timeout {NAME} 2000",
                ),
                "--sentinel",
            )
            self._all.append(self.sentinel)
            self.wait_whole()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            process.kill()
            process.client.close()
        self._stack.close()

    def _start(self, name: str, *options: str) -> int:
        """Start a server; return the port of the relay that leads to it."""
        port = self._stack.enter_context(kept_port())
        relay = self._relays.add(port)
        process = Process(
            self._program,
            self._folder / name,
            port,
            (
                "appendonly yes",
                'save ""',
                "repl-diskless-sync-delay 0",
                "repl-timeout 5",
                "replica-announce-ip 127.0.0.1",
                f"replica-announce-port {relay.port}",
                *options,
            ),
        )
        self._all.append(process)
        self.both.append(process)
        self.between.append(relay)
        return relay.port

    def _is_replicated(self) -> bool:
        with suppress(redis.RedisError):
            found = self.both[1].client.info("replication")
            return bool(found.get("master_link_status") == "up")
        return False

    def link(self) -> Link:
        """Return the way to them for another node."""
        own = [self._relays.add(process.port) for process in self.both]
        translated = {
            b"\r\n%d\r\n" % known.port: b"\r\n%d\r\n" % relay.port
            for known, relay in zip(self.between, own, strict=True)
        }
        sentinel = self._relays.add(self.sentinel.port, translated)
        return Link(f"redis+sentinel://127.0.0.1:{sentinel.port}/{NAME}", (*own, sentinel))

    @property
    def primary(self) -> Process:
        """Return the server that Sentinel names."""
        _, port = self.sentinel.client.sentinel_get_master_addr_by_name(NAME)
        return self.both[[relay.port for relay in self.between].index(port)]

    @property
    def replica(self) -> Process:
        """Return the other one."""
        return next(process for process in self.both if process is not self.primary)

    def find_relay(self, server: Process) -> Relay:
        """Return the way of the other server and Sentinel to a server."""
        return self.between[self.both.index(server)]

    @property
    def is_whole(self) -> bool:
        """Return whether a primary and its replica work, and Sentinel knows both."""
        with suppress(redis.RedisError):
            state = self.sentinel.client.sentinel_master(NAME)
            (replica,) = self.sentinel.client.sentinel_slaves(NAME) or [{}]
            info = self.primary.client.info("replication")
            return bool(
                state["flags"] == "master"
                and replica.get("flags") == "slave"
                and replica.get("master-link-status") == "ok"
                and info["role"] == "master"
                and info["connected_slaves"] == 1
                and info["slave0"]["state"] == "online"
            )
        return False

    def wait_whole(self) -> None:
        """Wait until all is as it should be."""
        wait_until(lambda: self.is_whole, "a primary with its replica", patience_s=PATIENCE_S)

    @contextmanager
    def noticing_deaths(self) -> Iterator[None]:
        """Let Sentinel notice within the block at once that a server is dead."""
        name = "down-after-milliseconds"
        self.sentinel.client.sentinel_set(NAME, name, DOWN_MS)
        yield
        self.sentinel.client.sentinel_set(NAME, name, self._down_ms)

    def wait_for_failover(self, before: Process) -> None:
        """Wait until another server than this one is the primary."""
        wait_until(
            lambda: self.primary is not before and self.primary.role() == "master",
            "another primary",
            patience_s=PATIENCE_S,
        )
