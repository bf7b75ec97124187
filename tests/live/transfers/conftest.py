"""A proxy with an upstream behind a doorman, without TLS and with."""

import ssl
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tests.live.transfers.doorman import Doorman
from tests.live.transfers.proxy_process import ProxyProcess
from tests.upstream import Upstream, wait_until

SETTINGS = {
    "TAXIMETER_WORKERS": "1",
    "TAXIMETER_DRAIN_SECONDS": "0",
    "TAXIMETER_REQUEST_IDLE_SECONDS": "3600",  # the connection of `pass_all` is idle during a long test
}

with_tls = pytest.mark.parametrize("running_line", ["https"], indirect=True)
"""Runs a test only where a connection to the upstream takes a handshake, which the doorman delays."""
without_tls = pytest.mark.parametrize("running_line", ["http"], indirect=True)
"""Runs a test only without TLS at the upstream: it is about what the proxy does with its clients."""


@dataclass(frozen=True)
class Line:
    """A client's way to the upstream: the proxy, then the doorman, then the upstream."""

    proxy: ProxyProcess
    doorman: Doorman
    upstream: Upstream

    def settle(self) -> None:
        """Wait until all connections have ended, and everybody has dealt with what came on them."""
        self.doorman.open()
        wait_until(
            lambda: not self.proxy.has_connections, "the end of all connections of the proxy"
        )
        wait_until(lambda: not self.doorman.is_relaying, "the end of all relays")
        wait_until(
            lambda: not self.upstream.is_serving, "the end of all connections of the upstream"
        )

    def wait_stalled(self, passed: Sized) -> None:
        """Wait until nothing more is added to ``passed`` while the proxy does all that it can."""
        seen = [-1]

        def is_stalled() -> bool:
            self.proxy.pass_all()
            seen.append(len(passed))
            return seen[-1] == seen[-2] > 0

        wait_until(is_stalled, "a transfer that stands still")

    def reset(self) -> None:
        self.settle()
        self.upstream.reset()
        self.proxy.take_spooled(0)


@contextmanager
def run_line(folder: Path, scheme: str) -> Iterator[Line]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with (
        authority.cert_pem.tempfile() as authority_path,
        Upstream(tls=context if scheme == "https" else None) as upstream,
        Doorman(upstream.port) as doorman,
        ProxyProcess(
            folder,
            f"{scheme}://localhost:{doorman.port}",
            {**SETTINGS, "SSL_CERT_FILE": str(authority_path)},
        ) as proxy,
    ):
        yield Line(proxy, doorman, upstream)


@pytest.fixture(scope="package", params=["http", "https"])
def running_line(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Line]:
    with run_line(tmp_path_factory.mktemp("line"), request.param) as line:
        yield line


@pytest.fixture
def line(running_line: Line) -> Iterator[Line]:
    """The line, as one test finds it; what should never happen at the upstream fails the test. A transfer
    that stands still where a test failed ends with it."""
    running_line.reset()
    yield running_line
    running_line.doorman.open()
    faults = list(running_line.upstream.faults)
    running_line.doorman.cut_all()
    assert faults == []
