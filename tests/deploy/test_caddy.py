"""The Caddyfile, as Caddy reads it, and what a Caddy with it does to requests, responses and its log.

The site is plain HTTP here, and a scripted upstream stands for Taximeter.
"""

import gzip
import http.client
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.deploy import DEPLOY
from tests.listening import find_port
from tests.upstream import CLOSE, Gate, Script, Upstream, answer, cut_sse, sse, wait_until

CADDY = shutil.which("caddy")
CREDENTIAL = "sk-ant-dummy-0123456789"
CALL = "/proxy/default/v1/messages"
BODY = b'{"model": "m"}'


def read_version() -> tuple[int, ...]:
    done = subprocess.run([str(CADDY), "version"], capture_output=True, text=True, check=True)  # noqa: S603 - as below
    numbers = re.findall(r"\d+", done.stdout)
    return tuple(map(int, numbers[:2]))


pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(CADDY is None, reason="there is no caddy; apt-get install caddy brings it"),
]


@dataclass(frozen=True, slots=True)
class Site:
    """A running Caddy, and the upstream behind it."""

    port: int
    upstream: Upstream
    log: Path

    @contextmanager
    def call(
        self,
        path: str = CALL,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: bytes = b"",
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request with no header but these and those that HTTP wants.

        It has no body where the response is read. This upstream answers within the microseconds in
        which a Caddy 2.6 still looks for the end of the body, and that Caddy then cuts the response:
        some 6 in 1,000 on a loaded machine, none without a body.
        """
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.putrequest("POST", path, skip_accept_encoding=True)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            yield connection.getresponse()


@contextmanager
def run_caddy(folder: Path, clients: str) -> Iterator[Site]:
    """Run a Caddy that lets calls in from these networks."""
    with Upstream() as upstream, (folder / "log").open("wb") as log:
        config = adapt(
            folder,
            DOMAIN="http://127.0.0.1:0",
            CLIENT_NETWORKS=clients,
            TAXIMETER=upstream.url.removeprefix("http://"),
        )
        # Its port is the same for each Caddy of a machine.
        (folder / "caddy.json").write_text(json.dumps(config | {"admin": {"disabled": True}}))
        process = subprocess.Popen(  # noqa: S603 - the program that is tested
            [str(CADDY), "run", "--config", str(folder / "caddy.json")],
            env=make_environ(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            wait_until(lambda: find_port(process.pid), "Caddy listens")
            yield Site(find_port(process.pid) or 0, upstream, folder / "log")
        finally:
            process.kill()  # it would wait for connections that are idle
            process.wait()
        assert upstream.faults == []


def adapt(folder: Path, name: str = "Caddyfile", **variables: str) -> dict[str, Any]:
    """Return a Caddyfile as Caddy reads it with these variables, once it has found no fault."""
    done = subprocess.run(  # noqa: S603 - the program that is tested
        [str(CADDY), "adapt", "--config", str(DEPLOY / name), "--adapter", "caddyfile", "--validate"],
        env=make_environ(folder) | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not formatted" not in done.stderr
    config: dict[str, Any] = json.loads(done.stdout)
    return config


def make_environ(folder: Path) -> dict[str, str]:
    home = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))
    return home | {"PATH": os.environ.get("PATH", os.defpath)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with run_caddy(tmp_path_factory.mktemp("caddy"), "127.0.0.1/32 ::1") as running:
        yield running


@pytest.fixture(scope="module")
def closed_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with run_caddy(tmp_path_factory.mktemp("closed"), "192.0.2.0/24 2001:db8::/32") as running:
        yield running


def test_each_event_of_a_stream_goes_on_as_it_comes(site: Site) -> None:
    gate = Gate()
    site.upstream.enqueue(sse([b"data: 1\n\n", gate, b"data: 2\n\n"]))
    with site.call() as response:
        assert response.readline() + response.readline() == b"data: 1\n\n"
        gate.open()
        assert response.read() == b"data: 2\n\n"


def test_requests_go_through_as_they_are_with_the_address_of_the_client(site: Site) -> None:
    site.upstream.enqueue(answer(200, b"{}"))
    path = "/proxy/default//v1/messages?beta=true&x=%2F"
    with site.call(
        path, {"x-api-key": CREDENTIAL, "x-forwarded-for": "203.0.113.9"}, BODY
    ) as response:
        assert response.status == 200
    seen = site.upstream.requests[-1]
    assert (seen.method, seen.target, bytes(seen.body)) == ("POST", path, BODY)
    assert seen.header("x-api-key") == CREDENTIAL
    assert seen.header("x-forwarded-for") == "127.0.0.1"
    assert seen.header("host") == f"127.0.0.1:{site.port}"


def test_a_compressed_response_stays_compressed(site: Site) -> None:
    body = gzip.compress(b"{}")
    headers = [("content-encoding", "gzip"), ("content-type", "application/json")]
    site.upstream.enqueue(answer(200, body, headers))
    with site.call() as response:
        assert response.read() == body
    assert site.upstream.requests[-1].header("accept-encoding") is None


@pytest.mark.skipif(
    CADDY is not None and read_version() < (2, 8),
    reason="a Caddy before 2.8 ends a stream that was cut as though it were whole; the repository of caddyserver.com brings a newer one",
)
def test_a_response_that_is_cut_reaches_the_client_as_a_cut(site: Site) -> None:
    site.upstream.enqueue(cut_sse([b"data: 1\n\n"]))
    with site.call() as response, pytest.raises(http.client.IncompleteRead):
        response.read()


def test_an_error_is_logged_without_the_credential_of_the_call(site: Site) -> None:
    site.upstream.enqueue(Script((CLOSE,)))
    secret = {"x-api-key": CREDENTIAL, "authorization": f"Bearer {CREDENTIAL}"}
    with site.call(f"{CALL}?key={CREDENTIAL}", secret) as response:
        assert response.status == 502
    wait_until(lambda: "http.log.error" in site.log.read_text(), "the error is logged")
    assert CREDENTIAL not in site.log.read_text()


def test_strangers_get_the_pages_and_no_endpoint(closed_site: Site) -> None:
    with closed_site.call() as response:
        error = json.loads(response.read())
    assert response.status == 403
    assert response.getheader("content-type") == "application/json"
    assert error["error"]["type"] == "permission_error"
    assert closed_site.upstream.requests == []
    closed_site.upstream.enqueue(answer(200, b"{}"))
    with closed_site.call("/sign-in") as response:
        assert response.status == 200


def test_without_variables_it_serves_this_machine_and_private_networks(tmp_path: Path) -> None:
    [server] = adapt(tmp_path)["apps"]["http"]["servers"].values()
    assert server["routes"][0]["match"] == [{"host": ["localhost"]}]
    assert '"10.0.0.0/8"' in json.dumps(server)
    assert '"dial": "127.0.0.1:8080"' in json.dumps(server)
