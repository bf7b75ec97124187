"""A request is directed once its head is there: responded to here, to the web process, or upstream."""

import logging
import math
import sqlite3
import time
from collections.abc import Awaitable

from mitmproxy import http

from addon import browsers, clients, errors, headers, mitmproxy_patches
from addon.body_memory import BodyMemory
from addon.browsers import BrowserRules
from addon.capture import Spooler
from addon.credentials import MAX_FOUND, find_service_keys
from addon.errors import Refusal
from addon.exchange import Exchange
from addon.health import Health, is_loopback_name
from addon.routing import Destination, Route, find_route
from addon.wiring import Wiring
from runtime.moving_window import MovingWindow
from runtime.settings import Settings
from runtime.trouble_log import TroubleLog
from store.control.database import ProxyEndpoint, SlugDirectory

logger = logging.getLogger(__name__)

# Above the upstream's own limit of 32 MB, so that it is the upstream that refuses.
LOGGED_REQUEST_LIMIT_BYTES = 33 * 1024 * 1024
# In the metadata of a flow: the listed origin of the page that made the request.
ORIGIN = "taximeter_origin"

type LocalResponse = Refusal | http.Response


class Dispatcher:
    """Directs requests, and enters those that go on into ``exchanges``, by their client connection."""

    def __init__(
        self,
        settings: Settings,
        wiring: Wiring,
        exchanges: dict[str, Exchange],
        memory: BodyMemory,
        spooler: Spooler,
        browser_rules: BrowserRules,
    ) -> None:
        self._settings = settings
        self._wiring = wiring
        self._exchanges = exchanges
        self._memory = memory
        self._spooler = spooler
        self._browsers = browser_rules
        self._slugs = SlugDirectory(settings.control_path)
        self._health = Health(settings.data_dir, wiring.web_port, spooler.troubles)
        self._upstream_host = settings.upstream_url.authority.encode()
        self._filter = headers.RequestFilter(settings.vendor, settings.forward_headers)
        self._windows = {
            Destination.MESSAGES: MovingWindow(300),
            Destination.COUNT_TOKENS: MovingWindow(600),
            Destination.OTHER: MovingWindow(600),
        }
        self._directory_trouble = TroubleLog(
            logger, "control.db cannot be read (%s): slugs not seen before get 503"
        )

    def direct(self, flow: http.HTTPFlow) -> LocalResponse | Awaitable[http.Response] | None:
        """Send a request on its way and return None, or return the response to send instead."""
        request = flow.request
        request.authority = ""  # an absolute-form target would be passed on as one
        if request.path.startswith("/proxy/"):
            response = self._judge_browser(flow)
            if response is not None:
                return response
        route = find_route(request.method, request.path)
        if isinstance(route, Refusal):
            return route
        match route.destination:
            case Destination.WEB:
                return self._to_web(flow)
            case Destination.LIVE:
                return _json_response(200, b'{"status":"ok"}')
            case Destination.HEALTH:
                # A body would wait, unbounded, for the report.
                if headers.announces_body(request.headers.fields):
                    return errors.unexpected_body()
                return self._report_health(request)
        return self._to_endpoint(flow, route)

    def keep_house(self, now_s: float) -> None:
        self._slugs.notice_replacement()
        for window in self._windows.values():
            window.forget_idle(now_s)

    def close(self) -> None:
        self._slugs.close()

    def _judge_browser(self, flow: http.HTTPFlow) -> LocalResponse | None:
        request = flow.request
        verdict = self._browsers.judge(request.method, request.headers.fields)
        if not isinstance(verdict, bytes):
            return verdict
        if browsers.is_preflight(request.method, request.headers.fields):
            allowed = browsers.make_preflight_fields(request.headers.fields, verdict)
            return http.Response.make(200, b"", http.Headers(allowed))
        flow.metadata[ORIGIN] = verdict
        return None

    def _to_endpoint(self, flow: http.HTTPFlow, route: Route) -> LocalResponse | None:
        try:
            found = find_service_keys(flow.request.path, flow.request.headers.fields)
            if len(found) > MAX_FOUND or any(map(self._slugs.knows_key, found)):
                return errors.service_key()
            endpoint = self._slugs.find(route.slug)
        except sqlite3.Error as error:
            self._directory_trouble.report(str(error))
            return errors.directory_unavailable()
        self._directory_trouble.clear()
        if endpoint is None:
            return errors.unknown_slug(route.slug)
        if route.destination is Destination.PROBE:
            return http.Response.make(200)
        return self._to_upstream(flow, route, endpoint)

    async def _report_health(self, request: http.Request) -> http.Response:
        with_lines = self._settings.is_local and is_loopback_name(request.host_header)
        return _json_response(*await self._health.report(with_lines=with_lines))

    def _to_upstream(
        self, flow: http.HTTPFlow, route: Route, endpoint: ProxyEndpoint
    ) -> Refusal | None:
        request = flow.request
        logged = route.destination is Destination.MESSAGES
        fields = request.headers.fields
        if headers.get(fields, b"upgrade") is not None:
            return errors.upgrade_refused()
        if logged and request.stream:  # declared larger than what is buffered
            return errors.too_large(LOGGED_REQUEST_LIMIT_BYTES)
        if logged and not self._memory.has_room(headers.declared_bytes(fields)):
            return errors.memory_full()
        refusal = self._limit(route.destination, endpoint)
        if refusal is not None:
            return refusal
        upstream = self._settings.upstream_url
        mitmproxy_patches.direct(request, upstream.scheme, upstream.host, upstream.port)
        request.path = upstream.prefix + route.target
        request.headers.fields = headers.with_host(self._filter(fields), self._upstream_host)
        mode = endpoint.streaming or self._settings.streaming
        exchange = self._exchanges[flow.client_conn.id] = Exchange(
            endpoint=endpoint,
            origin=flow.metadata.get(ORIGIN),
            target=route.target,
            run_id=route.run_id,
            logged=logged,
            buffered=logged and mode == "buffered",
        )
        _settle_connection(request, exchange, fields)
        if not logged:
            request.stream = exchange.pass_request_chunk
        return None

    def _to_web(self, flow: http.HTTPFlow) -> Refusal | None:
        if self._wiring.web_port is None:
            return errors.web_unavailable()
        request = flow.request
        peer = flow.client_conn.peername[0]
        client = clients.client_address(
            peer, request.headers.get_all("x-forwarded-for"), self._settings.trusted_proxies
        )
        token = f"{self._wiring.client_token} {client}".encode("latin-1")
        fields = request.headers.fields
        request.headers.fields = headers.for_web(fields, token)
        mitmproxy_patches.direct(request, "http", "127.0.0.1", self._wiring.web_port)
        exchange = self._exchanges[flow.client_conn.id] = Exchange()
        _settle_connection(request, exchange, fields)
        request.stream = exchange.pass_request_chunk
        return None

    def _limit(self, destination: Destination, endpoint: ProxyEndpoint) -> Refusal | None:
        window = self._windows[destination]
        wait_s = window.admit(endpoint.slug, time.monotonic())
        if not wait_s:
            return None
        self._spooler.count_rejection(
            endpoint.organization_id, endpoint.id, endpoint.slug, destination.value
        )
        return errors.rate_limited(window.limit, math.ceil(wait_s))


def _settle_connection(request: http.Request, exchange: Exchange, fields: headers.Fields) -> None:
    """Speak HTTP/1.1 to the upstream whatever the client speaks, and remember what it expects, which
    its headers as they came say."""
    version = request.http_version
    exchange.old_client = version == "HTTP/1.0"
    exchange.close_after = exchange.old_client or headers.asks_to_close(fields, version)
    request.http_version = "HTTP/1.1"
    # mitmproxy answers 100-continue itself, and takes the header away when it has.
    expectation = headers.get(fields, b"expect")
    if expectation is not None and expectation.lower() != b"100-continue":
        request.headers.pop("expect", None)


def _json_response(status: int, body: bytes) -> http.Response:
    fields = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
    return http.Response.make(status, body, http.Headers(fields))
