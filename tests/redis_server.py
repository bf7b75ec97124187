"""A Redis server of the tests' own: Debian's, or Valkey where that is installed.

TAXIMETER_TEST_REDIS names the program of another one.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest
import redis

from extensions.cluster import server

SERVER = (
    os.environ.get("TAXIMETER_TEST_REDIS")
    or shutil.which("redis-server")
    or shutil.which("valkey-server")
)


class RedisServer:
    """A server on a Unix socket, with an append-only file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"unix://{folder}/redis.sock"
        self.start()
        self._state = self._read_state()

    def start(self) -> None:
        if SERVER is None:
            pytest.skip("there is no redis-server; Debian's package of that name brings it")
        options = {
            "port": "0",
            "unixsocket": f"{self.folder}/redis.sock",
            "dir": str(self.folder),
            "appendonly": "yes",
            "save": "",
        }
        words = [word for name, text in options.items() for word in (f"--{name}", text)]
        with (self.folder / "log").open("ab") as output:
            self._process = subprocess.Popen([SERVER, *words], stdout=output, stderr=output)  # noqa: S603
        client = server.connect(self.url)
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s:
            with suppress(redis.RedisError):
                client.ping()
                client.close()
                return
            time.sleep(0.01)
        self.kill()
        raise AssertionError((self.folder / "log").read_text())

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @contextmanager
    def waiting_exactly(self) -> Iterator[None]:
        """Let it wait no longer than it is told to, which it notices 500 times a second instead of ten."""
        with closing(server.connect(self.url)) as client:
            client.config_set("hz", 500)
            yield
            client.config_set("hz", 10)

    def renew(self) -> None:
        """Empty it for another test, or start it again if it was killed or its settings were changed."""
        if self._process.poll() is None and self._read_state() == self._state:
            with closing(server.connect(self.url)) as client:
                client.flushall()
                client.script_flush()
            return
        self.kill()
        shutil.rmtree(self.folder / "appendonlydir")
        self.start()

    def _read_state(self) -> tuple[object, ...]:
        """Return what a test may have changed of it: its settings and users."""
        with closing(server.connect(self.url)) as client:
            return client.config_get("*"), client.acl_list(), client.acl_log()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
