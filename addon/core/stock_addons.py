"""Stock addons of mitmproxy, as far as a reverse proxy for plain HTTP needs them."""

from mitmproxy.addonmanager import Loader
from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context
from mitmproxy.tls import TlsData


class PlainHttpNextLayer(NextLayer):
    """Chooses HTTP whatever a client sends first. The stock addon looks for TLS in it, which cannot be
    spoken here, and then logs all that the client sent."""

    name = "nextlayer"  # by which mitmproxy looks for it, and warns where there is none

    def _next_layer(
        self, context: Context, _data_client: bytes, data_server: bytes
    ) -> layer.Layer | None:
        return super()._next_layer(context, b"", data_server)


class UpstreamTls:
    """Runs the part of the TLS addon that verifies an upstream. The rest is for a man in the
    middle of TLS clients: no certificate authority is generated here, none is written to disk."""

    def __init__(self) -> None:
        self._tlsconfig = TlsConfig()

    def load(self, loader: Loader) -> None:
        self._tlsconfig.load(loader)

    def tls_start_server(self, tls_start: TlsData) -> None:
        self._tlsconfig.tls_start_server(tls_start)
