"""A Redis server of the tests' own: Debian's, or Valkey where that is installed.

TAXIMETER_TEST_REDIS names the program of another one.
"""

import os
import shutil
import subprocess
import time
from contextlib import suppress
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
        self._folder = folder
        self.url = f"unix://{folder}/redis.sock"
        self.start()

    def start(self) -> None:
        if SERVER is None:
            pytest.skip("there is no redis-server; Debian's package of that name brings it")
        options = {
            "port": "0",
            "unixsocket": f"{self._folder}/redis.sock",
            "dir": str(self._folder),
            "appendonly": "yes",
            "save": "",
        }
        words = [word for name, text in options.items() for word in (f"--{name}", text)]
        with (self._folder / "log").open("ab") as output:
            self._process = subprocess.Popen([SERVER, *words], stdout=output, stderr=output)  # noqa: S603
        client = server.connect(self.url)
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s:
            with suppress(redis.RedisError):
                client.ping()
                client.close()
                return
            time.sleep(0.01)
        raise AssertionError((self._folder / "log").read_text())

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
