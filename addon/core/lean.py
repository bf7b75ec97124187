"""Parts of mitmproxy with only what ``python -m addon`` needs of them.

Nothing of what is sent, refused or given to a hook changes by that.
"""

from mitmproxy import options
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


def fix_options(opts: options.Options) -> None:
    """Let each option be read as it is now from now on. mitmproxy makes a deep copy for each reader, of
    which there are ten for a small call. Lists go on to be copied."""
    for name in opts.keys():  # noqa: SIM118 - not a mapping
        value = getattr(opts, name)
        if value is None or isinstance(value, str | int | float):
            opts.__dict__[name] = value
