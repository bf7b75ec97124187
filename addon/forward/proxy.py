"""``ForwardProxy``, the mitmproxy addon of a forward proxy, and the layers that it chooses.

Nothing that passes is kept or logged: bodies are streamed, and messages of websockets are dropped once
they have passed. Both sides speak HTTP/1.1, so that header lines stay unchanged."""

import base64
import hmac
from contextlib import suppress
from dataclasses import dataclass

from mitmproxy import ctx, http, tcp
from mitmproxy.addonmanager import Loader
from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.certs import Cert, CertStore, CertStoreEntry
from mitmproxy.connection import Server
from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import HttpLayer, TCPLayer
from mitmproxy.proxy.layers.http import HTTPMode
from mitmproxy.proxy.layers.http._upstream_proxy import HttpUpstreamProxy
from mitmproxy.tls import ClientHelloData, TlsData

from addon import headers
from addon.core import connections
from addon.forward.certificates import HostCertificate
from addon.forward.handing_over import Service, find_path
from runtime.http_proxies import HttpProxy, UserProxies
from runtime.setting_values import Upstream

USER = "run"
_AUTHORIZATION = "proxy-authorization"
SILENCE_S = 7 * 24 * 3600  # clients keep connections open that are silent for long


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The destinations of requests: the service, the upstream, and the user's HTTP proxies on the way."""

    upstream: Upstream
    service: Service
    user_proxies: UserProxies

    def is_opened(self, address: tuple[str, int]) -> bool:
        """Return whether connections to this address are decrypted: whether it is the upstream's."""
        return (address[0].lower(), address[1]) == (self.upstream.host, self.upstream.port)


@dataclass(slots=True)
class Counts:
    """Counts of message calls, other requests to the upstream, and tunnels to other hosts.

    ``refused`` counts connections whose client did not trust the certificate."""

    calls: int = 0
    others: int = 0
    tunnels: int = 0
    refused: int = 0


class ForwardProxy:
    """Sends message calls to the service, and passes all other requests on."""

    def __init__(self, places: Places, counts: Counts, roots: str, password: str) -> None:
        """Trust the authorities in the file ``roots`` for connections to upstream and service.

        Clients have to send ``password``, since other users of the machine can reach the port too."""
        self._places = places
        self._counts = counts
        self._roots = roots
        self._password = password

    def load(self, _loader: Loader) -> None:
        ctx.options.update(
            mode=["regular"],
            listen_host="127.0.0.1",
            listen_port=0,
            connection_strategy="lazy",
            http2=False,
            upstream_cert=False,
            tcp_timeout=SILENCE_S,
            ssl_verify_upstream_trusted_ca=self._roots,
        )

    def http_connect(self, flow: http.HTTPFlow) -> None:
        if not self._is_ours(flow.request):
            flow.response = refuse_stranger()

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        request = flow.request
        if flow.error or request.method == "CONNECT":
            return
        if not flow.client_conn.tls_established:  # a plain request to a proxy
            if not self._is_ours(request):
                flow.response = refuse_stranger()
                return
            request.headers.pop(_AUTHORIZATION, None)
        request.stream = True
        upstream, service = self._places.upstream, self._places.service
        path = None
        if self._is_opened(flow):
            path = find_path(request.method, request.path, upstream, service)
            self._counts.others += path is None
        if path is not None:
            self._counts.calls += 1
            request.path = path
            request.headers.fields = (*request.headers.fields, (headers.WANTED, headers.ALL))
            connections.set_destination(request, service.scheme, service.host, service.port)
        proxy = self._places.user_proxies.find(request.host, request.port)
        flow.server_conn = Server(address=(request.host, request.port))
        if proxy is not None:
            flow.server_conn.via = (proxy.scheme, (proxy.host, proxy.port))

    def _is_ours(self, request: http.Request) -> bool:
        """Return whether a request has the user name and the password of the run."""
        expected = f"{USER}:{self._password}".encode()
        _, _, given = request.headers.get(_AUTHORIZATION, "").partition(" ")
        with suppress(ValueError):
            return hmac.compare_digest(base64.b64decode(given, validate=True), expected)
        return False

    def _is_opened(self, flow: http.HTTPFlow) -> bool:
        request = flow.request
        return flow.client_conn.tls_established and self._places.is_opened(
            (request.host, request.port)
        )

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        if flow.response is not None:
            flow.response.stream = True

    def http_connect_upstream(self, flow: http.HTTPFlow) -> None:
        proxy = self._places.user_proxies.find(flow.request.host, flow.request.port)
        if proxy is not None and proxy.authorization is not None:
            flow.request.headers["proxy-authorization"] = proxy.authorization.decode()

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        if flow.websocket is not None:
            flow.websocket.messages.clear()

    def tcp_message(self, flow: tcp.TCPFlow) -> None:
        flow.messages.clear()

    def tls_failed_client(self, _data: TlsData) -> None:
        self._counts.refused += 1


def refuse_stranger() -> http.Response:
    """Return the response to a client without the password of the run."""
    headers = http.Headers([(b"Proxy-Authenticate", b'Basic realm="taximeter run"')])
    return http.Response.make(407, b"", headers)


class ForwardNextLayer(NextLayer):
    """Chooses layers that decrypt connections to the upstream, and pass on the bytes of all others."""

    name = "nextlayer"  # by which mitmproxy looks for it, and warns where there is none

    def __init__(self, places: Places, counts: Counts) -> None:
        self._places = places
        self._counts = counts

    def _next_layer(
        self, context: Context, data_client: bytes, data_server: bytes
    ) -> layer.Layer | None:
        address = context.server.address
        if address is not None and not self._places.is_opened((address[0], address[1])):
            self._counts.tunnels += 1
            return make_tunnel(context, self._places.user_proxies.find(address[0], address[1]))
        if context.client.tls_established:
            return HttpLayer(context, HTTPMode.transparent)
        return super()._next_layer(context, data_client, data_server)


def make_tunnel(context: Context, proxy: HttpProxy | None) -> layer.Layer:
    """Return the layer that passes bytes on to the destination, through ``proxy`` unless it is None."""
    if proxy is None:
        return TCPLayer(context, ignore=True)
    context.server.via = (proxy.scheme, (proxy.host, proxy.port))
    stack = HttpUpstreamProxy.make(context, send_connect=True)
    stack /= TCPLayer(context, ignore=True)
    first: layer.Layer = stack[0]
    return first


class ForwardTls:
    """The TLS addon of mitmproxy with the certificate of the run.

    The certificate store on disk that it makes elsewhere is not made, since its configuration never
    runs here."""

    def __init__(self, issued: HostCertificate) -> None:
        self._tlsconfig = TlsConfig()
        authority = Cert(issued.authority)
        store = CertStore(issued.key, authority, None, b"", None)  # type: ignore[arg-type]
        entry = CertStoreEntry(Cert(issued.certificate), issued.key, None, [authority])  # type: ignore[arg-type]
        store.certs["*"] = entry
        self._tlsconfig.certstore = store

    def load(self, loader: Loader) -> None:
        self._tlsconfig.load(loader)

    def tls_clienthello(self, hello: ClientHelloData) -> None:
        self._tlsconfig.tls_clienthello(hello)

    def tls_start_client(self, tls_start: TlsData) -> None:
        self._tlsconfig.tls_start_client(tls_start)

    def tls_start_server(self, tls_start: TlsData) -> None:
        self._tlsconfig.tls_start_server(tls_start)
