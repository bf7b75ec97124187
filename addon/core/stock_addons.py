"""Stock addons of mitmproxy, as far as a reverse proxy for plain HTTP needs them."""

from mitmproxy.addonmanager import Loader
from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.tls import TlsData


class UpstreamTls:
    """Runs the part of the TLS addon that verifies an upstream. The rest is for a man in the
    middle of TLS clients: no certificate authority is generated here, none is written to disk."""

    def __init__(self) -> None:
        self._tlsconfig = TlsConfig()

    def load(self, loader: Loader) -> None:
        self._tlsconfig.load(loader)

    def tls_start_server(self, tls_start: TlsData) -> None:
        self._tlsconfig.tls_start_server(tls_start)
