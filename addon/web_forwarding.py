"""Forwarding to the web process: the API, the pages, and all that is not for a proxy endpoint."""

from mitmproxy import http

from addon import client_address, errors, headers
from addon.core import connections
from addon.errors import Refusal
from addon.exchange import Exchange
from addon.exchanges import Exchanges
from addon.process_config import ProcessConfig
from runtime.attempts import client_network
from runtime.settings import Settings

# A form may have 16 KB, a request to the API less.
MAX_WEB_BODY_BYTES = 1024 * 1024


class WebForwarder:
    """Forwards requests to the web process, with the client's address in a header.

    A request is read whole before a connection to the web process is opened, so that slow clients
    occupy no resources there."""

    def __init__(self, settings: Settings, config: ProcessConfig, exchanges: Exchanges) -> None:
        self._trusted_proxies = settings.trusted_proxies
        self._config = config
        self._exchanges = exchanges

    def forward(self, flow: http.HTTPFlow) -> Refusal | None:
        """Prepare a request for forwarding and return None, or return its refusal."""
        if self._config.web_port is None:
            return errors.WEB_UNAVAILABLE
        request = flow.request
        found = headers.index_of(request.headers)
        if headers.declared_bytes(found) > MAX_WEB_BODY_BYTES:
            return errors.web_body_too_large(MAX_WEB_BODY_BYTES)
        if request.method in ("GET", "HEAD") and headers.announces_body(found):
            return errors.UNEXPECTED_BODY
        client = client_address.read_client_address(flow, self._trusted_proxies)
        token = f"{self._config.client_token} {client}".encode("latin-1")
        request.headers.fields = headers.for_web(request.headers.fields, token)
        connections.set_destination(request, "http", "127.0.0.1", self._config.web_port)
        self._exchanges.begin(flow, Exchange(client_address=client_network(client)), found)
        return None

    def admit(self, flow: http.HTTPFlow, exchange: Exchange) -> Refusal | None:
        """Take a slot for a complete request and return None, or return its refusal if none is free."""
        if self._exchanges.web_slots.take(flow.client_conn.id, exchange.client_address):
            return None
        return errors.WEB_BUSY
