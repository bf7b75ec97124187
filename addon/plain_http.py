"""Clients speak plain HTTP here."""

from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context


class PlainHttp(NextLayer):
    """Takes every client for one that speaks HTTP. The stock addon looks for TLS in what a client sends,
    which none can be given here, and then logs all that it sent."""

    name = "nextlayer"  # by which mitmproxy looks for it, and warns where there is none

    def _next_layer(
        self, context: Context, _data_client: bytes, data_server: bytes
    ) -> layer.Layer | None:
        return super()._next_layer(context, b"", data_server)
