"""Parts of mitmproxy reduced to what ``python -m addon`` needs.

What is sent, refused or passed to hooks is the same as with the full parts."""

from mitmproxy import options
from mitmproxy.addonmanager import Loader
from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.tls import TlsData


class UpstreamTls:
    """The part of mitmproxy's TLS addon that verifies an upstream.

    The rest is for intercepting TLS of clients: here no certificate authority is generated or written
    to disk."""

    def __init__(self) -> None:
        self._tlsconfig = TlsConfig()

    def load(self, loader: Loader) -> None:
        self._tlsconfig.load(loader)

    def tls_start_server(self, tls_start: TlsData) -> None:
        self._tlsconfig.tls_start_server(tls_start)


def fix_options(opts: options.Options) -> None:
    """Make reading an option return the value itself. Lists are still copied.

    mitmproxy makes a deep copy for each read, of which there are ten for a small call."""
    for name in opts.keys():  # noqa: SIM118 - not a mapping
        value = getattr(opts, name)
        if value is None or isinstance(value, str | int | float):
            opts.__dict__[name] = value
