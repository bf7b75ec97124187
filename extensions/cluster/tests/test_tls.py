"""A server and a Sentinel that speak TLS alone, with a certificate of an authority of one's own."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
import redis
import trustme

from extensions.cluster import server
from tests.redis_server import SERVER
from tests.upstream import kept_port, wait_until

SENTINEL = """bind 127.0.0.1
tls-replication yes
sentinel monitor main 127.0.0.1 {port} 1
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an authority and a certificate, and return their folder."""
    folder = tmp_path_factory.mktemp("authority")
    made = trustme.CA()
    certificate = made.issue_cert("127.0.0.1")
    made.cert_pem.write_to_path(folder / "ca.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    return folder


@pytest.fixture(scope="module")
def urls(authority: Path) -> Iterator[list[str]]:
    """Run both; return the address of the server, and that by way of the Sentinel."""
    if SERVER is None:
        pytest.skip("there is no redis-server; Debian's package of that name brings it")
    tls = ["--port", "0", "--tls-auth-clients", "no", "--tls-ca-cert-file", "ca.pem"]
    tls += ["--tls-cert-file", "both.pem", "--tls-key-file", "both.pem"]
    with ExitStack() as stack:
        port, watching = (stack.enter_context(kept_port()) for _ in range(2))
        (authority / "sentinel.conf").write_text(SENTINEL.format(port=port))
        log = stack.enter_context((authority / "log").open("wb"))
        for words in (
            ["--bind", "127.0.0.1", "--save", "", "--tls-port", str(port)],
            ["sentinel.conf", "--sentinel", "--tls-port", str(watching)],
        ):
            process = subprocess.Popen(  # noqa: S603 - the server of the tests
                [SERVER, *words, *tls], cwd=authority, stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        found = [f"rediss://127.0.0.1:{port}?", f"redis+sentinel://127.0.0.1:{watching}/main?tls=true&"]  # fmt: skip

        def is_there() -> bool:
            text = (authority / "log").read_text()
            if "Bad directive" in text or "Failed finding TLS support" in text:
                pytest.skip(
                    "this server is built without TLS; Debian's package redis-server brings one"
                )
            for url in found:
                with suppress(redis.RedisError), closing(trusting(url, authority)) as client:
                    client.ping()
                    continue
                return False
            return True

        wait_until(is_there, "the server and its Sentinel")
        yield found


def trusting(url: str, authority: Path) -> server.Client:
    return server.connect(f"{url}ssl_ca_certs={authority}/ca.pem")


async def test_both_kinds_of_client_reach_them_and_trust_the_authority_that_is_named(
    urls, authority
):
    for url in urls:
        with closing(trusting(url, authority)) as client:
            assert server.ServerWatch(client).identify().role == "master"
        quick = server.connect_async(f"{url}ssl_ca_certs={authority}/ca.pem")
        assert await quick.ping()
        await server.close_async(quick)


def test_the_authorities_of_ssl_cert_file_are_trusted_too(urls, authority, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", f"{authority}/ca.pem")
    for url in urls:
        with closing(server.connect(url.rstrip("?&"))) as client:
            assert client.ping()


def test_a_certificate_of_an_unknown_authority_is_refused(urls):
    for url in urls:
        with (
            closing(server.connect(url.rstrip("?&"))) as client,
            pytest.raises(redis.ConnectionError),
        ):
            client.ping()
