"""Sending the proxy's own responses, also to clients that are still sending their request.

mitmproxy sends such a response only after it has read and kept the whole request. That is fine for
requests without a body, and for small ones, so that their connection survives. All others get the
response at once, and the rest of the request is discarded: the kernel resets a socket that is closed
with unread data, which may destroy the response before the client has read it. So we close our side
only, and the whole connection when the client closes it or after a while (nginx's
``lingering_close``)."""

import time

from mitmproxy import http
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler

from addon import headers
from addon.browsers import BrowserRules
from addon.core import connections
from addon.draining import Draining
from addon.errors import Refusal
from addon.own_responses import to_response

KEPT_BODY_BYTES = 64 * 1024
LINGER_S = 30.0
# In the metadata of a flow: the listed origin of the page that made the request.
ORIGIN = "taximeter_origin"


class Responder:
    """Sends refusals and other responses of our own.

    Responses to pages of listed origins have only the headers that ``browsers`` allows."""

    def __init__(self, browser_rules: BrowserRules, draining: Draining) -> None:
        self._browsers = browser_rules
        self._draining = draining
        self._deadlines_s: dict[str, float] = {}  # by client connection

    def respond(self, flow: http.HTTPFlow, own: Refusal | http.Response) -> None:
        """Respond to a request whose head was just received. To be called within ``requestheaders``."""
        body_bytes = _declared_bytes(flow.request)
        if body_bytes is None or body_bytes > KEPT_BODY_BYTES:
            self.respond_at_once(flow, own)
            return
        self.respond_to_whole(flow, own)
        if body_bytes:
            self._expect_end(flow.client_conn.id)

    def respond_to_whole(
        self, flow: http.HTTPFlow, own: Refusal | http.Response, *, close_after: bool = False
    ) -> None:
        """Respond once the whole request was received. ``close_after``: then close the connection."""
        flow.response = self._prepare(own, flow.metadata.get(ORIGIN))
        if close_after or self._draining.has_begun:
            flow.response.headers["connection"] = "close"

    def respond_at_once(self, flow: http.HTTPFlow, own: Refusal | http.Response) -> None:
        """Respond without waiting for the rest of the request, and disconnect."""
        flow.request.stream = False  # together with a response it crashes the flow
        handler = connections.find_handler(flow.client_conn.id)
        if handler is not None:
            self.send_last(handler, own, flow.metadata.get(ORIGIN))
        flow.kill()

    def send_last(
        self,
        handler: ProxyConnectionHandler,
        own: Refusal | http.Response,
        origin: bytes | None,
    ) -> None:
        """Send the last response on a connection whose client has got no response head yet.

        ``origin`` is the listed origin of the page that made the request, None for a program."""
        if connections.respond_and_half_close(handler, self._prepare(own, origin)):
            self._expect_end(handler.client.id)

    def forget(self, client_id: str) -> None:
        """Note that the whole request was received, so its connection need not be closed."""
        self._deadlines_s.pop(client_id, None)

    def close_overdue(self, now_s: float) -> None:
        """Close connections whose clients did not close them in time."""
        for client_id, deadline_s in list(self._deadlines_s.items()):
            handler = connections.find_handler(client_id)
            if handler is not None and now_s > deadline_s:
                connections.close_client(handler)
            if handler is None or now_s > deadline_s:
                del self._deadlines_s[client_id]

    def _prepare(self, own: Refusal | http.Response, origin: bytes | None) -> http.Response:
        response = to_response(own) if isinstance(own, Refusal) else own
        if origin is not None:
            response.headers.fields = self._browsers.returned(response.headers.fields, origin)
        return response

    def _expect_end(self, client_id: str) -> None:
        self._deadlines_s[client_id] = time.monotonic() + LINGER_S


def _declared_bytes(request: http.Request) -> int | None:
    """Return the Content-Length of a request, 0 if it has no body.

    Return None if the length is unknown, or the client waits for ``100 Continue``."""
    found = headers.index_of(request.headers)
    if found.get(b"transfer-encoding") or found.get(b"expect"):
        return None
    return headers.declared_bytes(found)
