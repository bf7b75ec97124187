"""The proxy alone: the process that forwards, without a recorder and without pages."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from runtime.settings import Streaming
from store.control.database import ControlDatabase
from store.spool import reader
from store.spool.format import SpooledExchange
from tests import ROOT
from tests.live.service import API_KEY, START_S, STOP_S, Output
from tests.live.transfers.doorman import create_bounded_server
from tests.proxy_endpoints import create_endpoint
from tests.rawclient import Cut, RawClient, request
from tests.upstream import wait_until

CALLS_A_SLUG = 250
"""Below the rate limit of a minute, so that no test waits for it."""


class ProxyProcess:
    """One running proxy, which is given a bound socket as one of a service is. ``take_slug`` hands out
    endpoints before one of them is limited."""

    def __init__(self, folder: Path, upstream_url: str, environ: Mapping[str, str]) -> None:
        self._data_dir = folder / "data"
        self._slugs: dict[Streaming, Iterator[str]] = {}
        self._environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "TAXIMETER_DATA_DIR": str(self._data_dir),
            "TAXIMETER_UPSTREAM_URL": upstream_url,
            **environ,
        }
        self._stack = ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self._asking: RawClient | None = None
        self._sockets_at_rest = 0
        self.address = ("127.0.0.1", 0)

    def __enter__(self) -> Self:
        self._data_dir.mkdir(parents=True)
        self._create_endpoints(40)
        with create_bounded_server() as listener:
            self.address = listener.getsockname()
            self._process = subprocess.Popen(  # noqa: S603 - the program under test
                [sys.executable, "-m", "addon", f"--listen-fd={listener.fileno()}"],
                cwd=ROOT,
                env=self._environ,
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        assert self._process.stderr
        self._output = Output(self._process.stderr)
        try:
            self._asking = self._stack.enter_context(RawClient(self.address, timeout_s=START_S))
            self.pass_all()
        except (OSError, Cut) as error:
            self._process.kill()
            raise AssertionError(f"the proxy did not start: {self._output.text}") from error
        self._sockets_at_rest = self._count_sockets()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process
        self._process.terminate()
        self._process.wait(STOP_S)
        self._output.close()
        self._stack.close()

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def memory_bytes(self) -> int:
        """Return the memory that it has in use."""
        rss: int = psutil.Process(self.pid).memory_info().rss
        return rss

    @property
    def log(self) -> str:
        return self._output.text

    @property
    def has_connections(self) -> bool:
        """Return whether the proxy has connections to clients or upstreams besides that of ``pass_all``."""
        return self._count_sockets() > self._sockets_at_rest

    def _count_sockets(self) -> int:
        """Return the number of its sockets. To ask which of them are connected would read a line for each
        connection of the machine."""
        count = 0
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed by now
                count += str(link.readlink()).startswith("socket:")
        return count

    def _create_endpoints(self, count: int) -> None:
        with ControlDatabase(self._data_dir / "control.db") as control:
            control.set_up()
            organization_id = control.get_local_organization().id
            modes: tuple[Streaming, ...] = ("live", "buffered")
            for mode in modes:
                names = [f"{mode}-{number}" for number in range(count)]
                for name in names:
                    create_endpoint(control, organization_id, name, name, mode)
                calls = (name for name in names for _ in range(CALLS_A_SLUG))
                self._slugs[mode] = itertools.cycle(calls)

    def take_slug(self, mode: Streaming = "live") -> str:
        """Return the slug of an endpoint that may be called once more within this minute."""
        return next(self._slugs[mode])

    def connect(self) -> RawClient:
        return RawClient(self.address)

    def pass_all(self) -> None:
        """Return once the proxy has dealt with all that came before."""
        assert self._asking
        response = self._asking.exchange(request("GET", "/livez", [("Host", "localhost")]))
        assert response.status == 200

    def send_apart(self, client: RawClient, pieces: Iterable[bytes]) -> None:
        """Send pieces so that the proxy reads each of them by itself."""
        for piece in pieces:
            client.send(piece)
            self.pass_all()

    def take_spooled(self, count: int) -> list[SpooledExchange]:
        """Wait for so many exchanges in the spool, remove them from it, and return them, oldest first."""
        self.pass_all()
        spool = self._data_dir / "spool"
        wait_until(
            lambda: len(list(reader.find_waiting(spool))) >= count,
            f"{count} exchanges in the spool",
        )
        found = []
        for waiting in reader.find_waiting(spool):
            exchange = reader.read_exchange(waiting.path)
            waiting.path.unlink()
            if exchange is not None:
                found.append(exchange)
        return found


def make_head(
    slug: str,
    path: str = "/v1/messages",
    *headers: tuple[str, str],
    method: str = "POST",
    version: str = "1.1",
) -> bytes:
    """Return the head of a request to this endpoint, with a credential and these headers."""
    fields = [("Host", "taximeter.test"), ("x-api-key", API_KEY), *headers]
    return request(method, f"/proxy/{slug}{path}", fields, version=version)
