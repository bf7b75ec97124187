"""The choice of the protocol that a client speaks: always plain HTTP."""

from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context


class PlainHttpNextLayer(NextLayer):
    """Chooses HTTP whatever a client sends first. The stock addon looks for TLS in it, which cannot be
    spoken here, and then logs all that the client sent."""

    name = "nextlayer"  # by which mitmproxy looks for it, and warns where there is none

    def _next_layer(
        self, context: Context, _data_client: bytes, data_server: bytes
    ) -> layer.Layer | None:
        return super()._next_layer(context, b"", data_server)
