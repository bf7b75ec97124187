"""The checks of the upstreams: the default one, and those that endpoints may choose."""

import re
import socket
import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress

import httpx

from manage.doctor.findings import Finding
from runtime.http_proxies import HttpProxy
from runtime.safe_text import terminal_line
from runtime.settings import Settings, Upstream, is_loopback
from store.control.endpoints import list_with_upstream
from store.database import open_readonly

CONNECT_TIMEOUT_S, BUSY_TIMEOUT_S = 10.0, 1.0
MAX_HEAD_BYTES = 16 * 1024
_NAME = "upstream"
_CONNECTED = re.compile(rb"HTTP/1\.[01] 2")


def check_upstreams(settings: Settings, trust_file: str | None) -> Iterator[Finding]:
    """Check that each upstream can be reached, and that the upstream of each endpoint is configured.

    ``trust_file`` is the SSL_CERT_FILE of the proxy."""
    urls = (settings.upstream_url, *settings.upstreams.values())
    variables = ("TAXIMETER_UPSTREAM_URL", *["TAXIMETER_UPSTREAMS"] * len(settings.upstreams))
    for url, variable in zip(urls, variables, strict=True):
        timeout_s = min(settings.upstream_timeout.connect, CONNECT_TIMEOUT_S)
        proxy = None if is_loopback(url.host) else settings.upstream_proxy
        yield check_upstream(url, variable, timeout_s, trust_file, proxy)
    yield from _check_endpoints(settings)


def check_upstream(
    upstream: Upstream,
    variable: str,
    timeout_s: float,
    trust_file: str | None,
    proxy: HttpProxy | None = None,
) -> Finding:
    """Check that a TLS connection to the upstream can be opened, if configured through an HTTP proxy.

    No request is sent to the upstream. ``variable`` is the setting that names the upstream."""
    if proxy is not None and proxy.scheme == "https":
        message = f"{upstream} is reached through {proxy}, which is not tried here"
        return Finding(_NAME, "note", message)
    try:
        with _connect(upstream, proxy, timeout_s) as connection:
            if upstream.scheme == "https":
                make_trust(trust_file).wrap_socket(
                    connection, server_hostname=upstream.host
                ).close()
    except ssl.SSLCertVerificationError as error:
        message = f"{upstream}: its certificate is not trusted: {error.verify_message}"
        advice = "behind a TLS inspector, point SSL_CERT_FILE at its certificates; check the clock"
        return Finding(_NAME, "wrong", message, advice)
    except socket.gaierror as error:
        message = f"{upstream}: its host name cannot be resolved: {error.strerror}"
        return Finding(_NAME, "wrong", message, f"check {variable} and this machine's DNS")
    except TimeoutError:
        advice = f"check the network and its firewall, and {variable}"
        return Finding(_NAME, "wrong", f"{upstream} does not respond in time", advice)
    except OSError as error:
        message = f"{upstream} cannot be reached: {error.strerror or error}"
        advice = f"check the network and its firewall, and {variable}"
        return Finding(_NAME, "wrong", message, advice)
    return Finding(_NAME, "ok", f"{upstream} can be reached")


def _connect(upstream: Upstream, proxy: HttpProxy | None, timeout_s: float) -> socket.socket:
    """Return a TCP connection to the upstream, through ``proxy`` unless it is None. Raises OSError."""
    if proxy is None:
        return socket.create_connection((upstream.host, upstream.port), timeout_s)
    connection = socket.create_connection((proxy.host, proxy.port), timeout_s)
    try:
        place = f"{upstream.host}:{upstream.port}".encode()
        secret = proxy.authorization
        lines = [b"CONNECT " + place + b" HTTP/1.1", b"host: " + place]
        lines += [] if secret is None else [b"proxy-authorization: " + secret]
        connection.sendall(b"\r\n".join([*lines, b"", b""]))
        head = b""
        while b"\r\n\r\n" not in head and len(head) < MAX_HEAD_BYTES:
            head += connection.recv(1) or b"\r\n\r\n"
        if not _CONNECTED.match(head):
            first_line = head.partition(b"\r\n")[0].decode("latin-1") or "nothing"
            raise OSError(f"{proxy} (TAXIMETER_UPSTREAM_PROXY) responds with {first_line[:100]!r}")  # noqa: TRY301
    except BaseException:
        connection.close()
        raise
    return connection


def _check_endpoints(settings: Settings) -> Iterator[Finding]:
    if not settings.control_path.exists():
        return
    try:
        with closing(open_readonly(settings.control_path, busy_timeout_s=BUSY_TIMEOUT_S)) as db:
            found = list_with_upstream(db)
    except sqlite3.Error:
        return  # reported by the check of the databases
    for endpoint in found:
        if endpoint.upstream not in settings.upstreams:
            name = terminal_line(f"{endpoint.upstream}")
            message = f"calls through {endpoint.slug} get 503: there is no upstream {name}"
            advice = (
                f"name it in TAXIMETER_UPSTREAMS ({name}=https://…), or run"
                f" `taximeter endpoints update {endpoint.slug} --upstream service`"
            )
            yield Finding(_NAME, "wrong", message, advice)


def make_trust(trust_file: str | None) -> ssl.SSLContext:
    """Return the trust store that the proxy uses with this SSL_CERT_FILE. Raises OSError."""
    if trust_file:
        return ssl.create_default_context(cafile=trust_file)
    return httpx.create_ssl_context(trust_env=False)  # those bundled with it


def find_upstream(settings: Settings, slug: str) -> Upstream | None:
    """Return the upstream of an endpoint, or the default one if the endpoint is not known here.

    None if ``settings`` do not have the upstream that the endpoint names."""
    name = None
    with (
        suppress(sqlite3.Error),
        closing(open_readonly(settings.control_path, busy_timeout_s=BUSY_TIMEOUT_S)) as db,
    ):
        name = next((each.upstream for each in list_with_upstream(db) if each.slug == slug), None)
    return settings.find_upstream(name)
