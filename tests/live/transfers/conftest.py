"""A proxy with an upstream behind a doorman, without TLS and with."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tests.live.transfers.doorman import Doorman
from tests.live.transfers.proxy_process import ProxyProcess
from tests.upstream import Upstream, wait_until

SETTINGS = {"TAXIMETER_WORKERS": "1", "TAXIMETER_DRAIN_SECONDS": "0"}


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
    """The line, as one test finds it; what should never happen at the upstream fails the test."""
    running_line.reset()
    yield running_line
    running_line.doorman.open()
    assert running_line.upstream.faults == []
