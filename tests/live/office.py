"""A machine of a company whose proxy is the only way to the vendor, and a service that takes it."""

import base64
import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from manage.cli.forward_proxy import ForwardProxy, find_route
from runtime.runs import new_run_id
from tests.connect_proxy import PASSWORD, SILENT, USER, ConnectProxy
from tests.live.command import call, environment
from tests.live.service import Row, Service
from tests.upstream import PATIENCE_S, Upstream, answer, message_json

HOST, OTHER = "api.anthropic.com", "files.example.com"
AUTHORIZATION = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """A service whose upstream is reached through the proxy of a company, which knows two hosts."""

    service: Service
    upstream: Upstream
    other: Upstream
    proxy: ConnectProxy
    environ: dict[str, str]
    variables: dict[str, str]
    authority_path: str

    def reset(self) -> None:
        for each in (self.upstream, self.other):
            each.reset()
            each.otherwise = answer(200, message_json())
        self.proxy.asked.clear()
        self.proxy.heads.clear()

    def run(self, *command: str, **more: str) -> Any:
        """Return what a client of the forward proxy that most tests share prints as JSON."""
        done = subprocess.run(  # noqa: S603 - our own clients
            command,
            env=self.environ | self.variables | more,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run_whole(self, *command: str, **more: str) -> Any:
        """Return what a client prints as JSON that `taximeter run` has started."""
        done = call(("run", "--forward-proxy", "--", *command), self.environ | more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def rows(self) -> list[Row]:
        return self.service.settled_rows()


@contextmanager
def open_office(folder: Path) -> Iterator[Office]:
    authority = trustme.CA()
    contexts = []
    for host in (HOST, OTHER):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(host).configure_cert(context)
        contexts.append(context)
    with (
        Upstream(tls=contexts[0]) as upstream,
        Upstream(tls=contexts[1]) as other,
        authority.cert_pem.tempfile() as trusted,
        ConnectProxy(
            {HOST: ("127.0.0.1", upstream.port), OTHER: ("127.0.0.1", other.port)}, AUTHORIZATION
        ) as proxy,
    ):
        address = proxy.url.replace("//", f"//{USER}:{PASSWORD.replace(':', '%3A')}@")
        with Service(
            folder,
            f"https://{HOST}",
            UPSTREAM_PROXY=address,
            UPSTREAMS=f"silent=https://{SILENT},refused=https://refused.example.com",
            UPSTREAM_TIMEOUT="connect=6,first_byte=60,idle=60",
            SSL_CERT_FILE=trusted,
        ) as service:
            environ = environment(service, HTTPS_PROXY=address, SSL_CERT_FILE=trusted)
            url = f"http://{service.host}/proxy/default/run/{new_run_id()}"
            with ForwardProxy(environ, find_route(f"https://{HOST}", url, "default")) as shared:
                yield Office(
                    service=service,
                    upstream=upstream,
                    other=other,
                    proxy=proxy,
                    environ=environ,
                    authority_path=trusted,
                    variables=shared.variables,
                )
            assert PASSWORD not in service.output
            assert PASSWORD not in (service.data_dir / "service.json").read_text()
