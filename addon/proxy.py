"""``UsageProxy``, the mitmproxy addon: route, limit, forward, copy into the spool.

The hooks only translate between mitmproxy's flows and the modules beside this one. A client
connection carries one exchange at a time (HTTP/1 without pipelining), so exchanges are kept by the
id of their client connection, which is also what the connection hooks know.
"""

import asyncio
import logging
import math
import os
import sqlite3
import time
from collections.abc import Awaitable

from mitmproxy import addonmanager, ctx, http
from mitmproxy.connection import ConnectionState
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import TlsData

from addon import clients, compat, errors, headers, reading
from addon.answers import Answers
from addon.body_memory import BodyMemory
from addon.capture import Spooler
from addon.credentials import find_service_keys
from addon.errors import Refusal
from addon.exchange import Exchange, Phase
from addon.health import Health, is_loopback_name
from addon.outcome import explain_failure
from addon.routing import Destination, Route, find_route
from addon.wiring import Wiring
from store import readiness
from store.control import ProxyEndpoint, SlugDirectory
from store.moving_window import MovingWindow
from store.settings import Settings

logger = logging.getLogger(__name__)

# Above the upstream's own limit of 32 MB, so that it is the upstream that refuses.
LOGGED_REQUEST_LIMIT_BYTES = 33 * 1024 * 1024
TICK_S = 0.25
HOUSEKEEPING_S = 2.0


class UsageProxy:
    def __init__(self, settings: Settings, wiring: Wiring) -> None:
        self._settings = settings
        self._wiring = wiring
        self._slugs = SlugDirectory(settings.control_path)
        self._spooler = Spooler(
            settings.spool_path, settings.disk_reserve, wiring.fingerprint_key, settings.vendor
        )
        self._health = Health(settings.data_dir, wiring.web_port, self._spooler.troubles)
        self._filter = headers.RequestFilter(settings.vendor, settings.forward_headers)
        self._windows = {
            Destination.MESSAGES: MovingWindow(300),
            Destination.COUNT_TOKENS: MovingWindow(600),
            Destination.OTHER: MovingWindow(600),
        }
        self._exchanges: dict[str, Exchange] = {}
        self._answers = Answers()
        self._memory = BodyMemory(settings.request_memory)
        self._draining = False
        self._directory_trouble: str | None = None
        self._ticker: asyncio.Task[None] | None = None

    # -- life of the process ----------------------------------------------------------------------

    def load(self, _loader: addonmanager.Loader) -> None:
        compat.patch_core()
        reading.patch_core(self)
        upstream = self._settings.upstream_url
        ctx.options.update(
            mode=[f"reverse:{upstream.origin}"],
            listen_host=self._settings.listen.host,
            listen_port=self._settings.listen.port,
            connection_strategy="lazy",
            keep_host_header=True,
            http2=False,
            websocket=False,
            rawtcp=False,
            stream_large_bodies=f"{LOGGED_REQUEST_LIMIT_BYTES}",
            tcp_timeout=_longest_silence_s(self._settings),
            ssl_verify_upstream_trusted_ca=os.environ.get("SSL_CERT_FILE") or None,
        )

    def running(self) -> None:
        # Nothing more is done here: mitmproxy exits when an error is logged while it starts, and a
        # full disk is an error, but no reason to let nobody through.
        self._ticker = asyncio.get_running_loop().create_task(self._tick())
        readiness.announce()

    async def done(self) -> None:
        """Drain: stop listening, close what is idle, let streams in flight end, then let go."""
        self._draining = True
        for server in list(compat.proxyserver(ctx.master).servers):
            if server.is_running:
                await server.stop()
        deadline_s = time.monotonic() + self._settings.drain_seconds
        connections = compat.proxyserver(ctx.master).connections
        idle_before: set[tuple[object, ...] | str] = set()
        while connections and time.monotonic() < deadline_s:
            idle = {id_ for id_ in connections if id_ not in self._exchanges}
            # Right after an exchange ends, its last bytes are still to be written: look twice.
            for id_ in idle & idle_before:
                compat.close_client(connections[id_])
            idle_before = idle
            await asyncio.sleep(0.02)
        if self._ticker is not None:
            self._ticker.cancel()
        # What is still open now is cut. Its file stays unfinished, and the recorder makes an entry
        # of it once our lock on the folder is gone.
        for exchange in self._exchanges.values():
            exchange.capture = None
        self._exchanges.clear()
        self._spooler.close()
        self._slugs.close()

    async def _tick(self) -> None:
        last_housekeeping_s = 0.0
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            try:
                self._close_overdue(now_s)
                self._answers.close_overdue(now_s)
                if now_s - last_housekeeping_s >= HOUSEKEEPING_S:
                    last_housekeeping_s = now_s
                    self._memory.give_back()
                    self._spooler.check_disk()
                    self._spooler.flush_rejections()
                    self._slugs.notice_replacement()
                    for window in self._windows.values():
                        window.forget_idle(now_s)
            except Exception:
                # The next tick tries again; ending here would end every timeout.
                logger.exception("Housekeeping failed")

    def _close_overdue(self, now_s: float) -> None:
        connections = compat.proxyserver(ctx.master).connections
        request_idle_s = self._settings.request_idle_seconds
        for client_id, exchange in list(self._exchanges.items()):
            handler = connections.get(client_id)
            if handler is None or exchange.timed_out is not None:
                continue
            silent_s = now_s - exchange.waiting_since_s
            if exchange.waits_for_client and not compat.is_upstream_behind(handler):
                if silent_s > request_idle_s:
                    refusal = errors.request_stalled(request_idle_s)
                    compat.answer_and_close(handler, compat.to_response(refusal))
            elif exchange.phase is not Phase.REQUEST:
                allowed_s: float = getattr(self._settings.upstream_timeout, exchange.phase.value)
                if silent_s > allowed_s:
                    exchange.timed_out = exchange.phase
                    compat.close_upstream(handler)

    # -- hooks of a flow --------------------------------------------------------------------------

    def requestheaders(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Gives something to await only for ``/healthz``."""
        if flow.error:  # the core has refused it: CONNECT, smuggling attempts, broken headers
            return None
        fault = headers.find_fault(flow.request.headers.fields)
        if fault is not None:
            self._answers.cut(flow, compat.to_response(errors.bad_header(fault)))
            return None
        try:
            refusal = self._direct(flow)
        except Exception:
            # mitmproxy would log this and forward the request as it stands, unfiltered.
            logger.exception("A request failed before it was forwarded")
            refusal = errors.internal_error()
        if isinstance(refusal, Refusal):
            self._answer(flow, compat.to_response(refusal))
            return None
        return refusal

    def may_hold(self, flow: http.HTTPFlow, held_bytes: int) -> bool:
        """See ``reading.Rules``."""
        client_id = flow.client_conn.id
        exchange = self._exchanges.get(client_id)
        if exchange is None:
            return True  # answered here, and small
        exchange.waiting_since_s = time.monotonic()
        if self._memory.hold(client_id, held_bytes):
            return True
        self._answers.cut(flow, compat.to_response(errors.memory_full()))
        return False

    def request(self, flow: http.HTTPFlow) -> None:
        exchange = self._exchanges.get(flow.client_conn.id)
        if exchange is None:
            self._answers.forget(flow.client_conn.id)
            return
        exchange.request_is_whole = True
        exchange.request_done_s = time.monotonic()
        if not flow.request.stream:
            self._capture(flow, exchange)
        exchange.own_s += time.monotonic() - exchange.request_done_s
        if not exchange.response_started:  # an upstream may answer before an upload ends
            exchange.enter(Phase.FIRST_BYTE)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        exchange, response = self._exchanges.get(flow.client_conn.id), flow.response
        if exchange is None or response is None:
            return
        arrived_s = exchange.last_byte_s = time.monotonic()
        exchange.enter(Phase.IDLE)
        exchange.response_started = True
        if exchange.capture is None and flow.request.stream:
            self._capture(flow, exchange)  # an upload of unknown length that grew too large to keep
        flow.request.data.content = None  # it is sent and spooled; a stream may go on for minutes
        self._memory.release(flow.client_conn.id)
        if exchange.capture is not None:
            exchange.capture.response_head(
                response.status_code, response.headers.fields, exchange.elapsed_ms(arrived_s)
            )
        response.headers.fields = headers.returned(response.headers.fields)
        if exchange.old_client:
            response.headers.pop("transfer-encoding", None)
        if exchange.close_after or self._draining:
            response.headers["connection"] = "close"
        response.stream = exchange.take_chunk
        exchange.own_s += time.monotonic() - arrived_s

    def response(self, flow: http.HTTPFlow) -> None:
        exchange = self._forget(flow)
        if exchange is not None:
            exchange.finish("complete")

    def error(self, flow: http.HTTPFlow) -> None:
        exchange = self._forget(flow)
        if exchange is None:
            return
        client_left = not flow.client_conn.state & ConnectionState.CAN_READ
        # mitmproxy gives a flow its upstream connection right before it sends the request on it.
        was_sent = flow.server_conn.timestamp_start is not None
        failure = explain_failure(
            timed_out=exchange.timed_out,
            client_left=client_left,
            was_sent=was_sent,
            for_web=exchange.endpoint is None,
            message=flow.error.msg if flow.error else "",
        )
        if exchange.capture is None and was_sent:
            self._capture(flow, exchange)
        if failure.outcome == "client_disconnected" and not was_sent:
            exchange.discard()
        else:
            exchange.finish(failure.outcome, failure.error_type)
        handler = compat.find_handler(ctx.master, flow.client_conn)
        if handler is None:
            return
        compat.drop_unsent(handler)
        if client_left:
            return
        if not exchange.response_started:
            self._answers.end(handler, compat.to_response(failure.refusal))
        elif exchange.old_client:
            compat.reset_client(handler)

    def _forget(self, flow: http.HTTPFlow) -> Exchange | None:
        # A flow sits in a reference cycle: what it holds would stay until a full collection.
        flow.request.data.content = None
        exchange = self._exchanges.pop(flow.client_conn.id, None)
        if exchange is not None:
            self._memory.release(flow.client_conn.id)
            flow.request.stream = False
            if flow.response is not None:
                flow.response.stream = False
        return exchange

    def _capture(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        if exchange.endpoint is None or not exchange.logged:
            return
        try:
            exchange.capture = self._spooler.open(
                exchange.endpoint,
                exchange.arrived_at,
                flow.request.headers.fields,
                flow.request.raw_content,
                exchange.target,
            )
        except Exception:
            # Our own mistake must not cost the client its answer; the counter makes it visible.
            self._spooler.troubles.calls_not_kept += 1
            logger.exception("A call goes through without being kept")

    # -- hooks of an upstream connection ----------------------------------------------------------

    def server_connect(self, data: ServerConnectionHookData) -> None:
        self._enter(data.client.id, Phase.CONNECT)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        if not data.server.tls:
            self._enter(data.client.id, Phase.FIRST_BYTE)

    def tls_established_server(self, data: TlsData) -> None:
        self._enter(data.context.client.id, Phase.FIRST_BYTE)

    def is_connecting(self, client_id: str) -> bool:
        """See ``reading.Rules``."""
        exchange = self._exchanges.get(client_id)
        return exchange is not None and exchange.phase is Phase.CONNECT

    def _enter(self, client_id: str, phase: Phase) -> None:
        exchange = self._exchanges.get(client_id)
        if exchange is not None:
            exchange.enter(phase)

    # -- the way to the upstream ------------------------------------------------------------------

    def _direct(self, flow: http.HTTPFlow) -> Refusal | Awaitable[None] | None:
        """Send a request on its way. Returns what to answer instead, if it goes nowhere, or what
        is still to be awaited."""
        request = flow.request
        request.authority = ""  # an absolute-form target would be passed on as one
        route = find_route(request.method, request.path)
        if isinstance(route, Refusal):
            return route
        match route.destination:
            case Destination.WEB:
                return self._to_web(flow)
            case Destination.LIVE:
                self._answer(flow, _json_response(200, b'{"status":"ok"}'))
                return None
            case Destination.HEALTH:
                return self._report_health(flow)
        try:
            if any(map(self._slugs.knows_key, find_service_keys(request.headers.fields))):
                return errors.service_key()
            endpoint = self._slugs.find(route.slug)
        except sqlite3.Error as error:
            self._report_directory(str(error))
            return errors.directory_unavailable()
        self._directory_trouble = None
        if endpoint is None:
            return errors.unknown_slug(route.slug)
        if route.destination is Destination.PROBE:
            self._answer(flow, http.Response.make(200))
            return None
        return self._to_upstream(flow, route, endpoint)

    def _report_directory(self, trouble: str) -> None:
        """Once, until it is another trouble or over."""
        if trouble != self._directory_trouble:
            logger.error("control.db cannot be read (%s): slugs not seen before get 503", trouble)
        self._directory_trouble = trouble

    async def _report_health(self, flow: http.HTTPFlow) -> None:
        with_lines = self._settings.is_local and is_loopback_name(flow.request.host_header)
        self._answer(flow, _json_response(*await self._health.report(with_lines=with_lines)))

    def _to_upstream(
        self, flow: http.HTTPFlow, route: Route, endpoint: ProxyEndpoint
    ) -> Refusal | None:
        request = flow.request
        logged = route.destination is Destination.MESSAGES
        if "upgrade" in request.headers:
            return errors.upgrade_refused()
        if logged and request.stream:  # declared larger than what is buffered
            return errors.too_large(LOGGED_REQUEST_LIMIT_BYTES)
        if logged and not self._memory.has_room(headers.declared_bytes(request.headers.fields)):
            return errors.memory_full()
        refusal = self._limit(route.destination, endpoint)
        if refusal is not None:
            return refusal
        upstream = self._settings.upstream_url
        asked_to_close = compat.asks_to_close(request)
        compat.direct(request, upstream.scheme, upstream.host, upstream.port)
        request.path = upstream.prefix + route.target
        request.headers.fields = self._filter(request.headers.fields)
        request.headers["host"] = upstream.authority
        mode = endpoint.streaming or self._settings.streaming
        exchange = self._exchanges[flow.client_conn.id] = Exchange(
            endpoint=endpoint,
            target=route.target,
            logged=logged,
            buffered=logged and mode == "buffered",
        )
        _settle_connection(request, exchange, asked_to_close=asked_to_close)
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
        asked_to_close = compat.asks_to_close(request)
        token = f"{self._wiring.client_token} {client}".encode("latin-1")
        request.headers.fields = headers.for_web(request.headers.fields, token)
        compat.direct(request, "http", "127.0.0.1", self._wiring.web_port)
        exchange = self._exchanges[flow.client_conn.id] = Exchange()
        _settle_connection(request, exchange, asked_to_close=asked_to_close)
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

    def _answer(self, flow: http.HTTPFlow, response: http.Response) -> None:
        if self._draining:
            response.headers["connection"] = "close"
        self._answers.give(flow, response)


def _settle_connection(request: http.Request, exchange: Exchange, *, asked_to_close: bool) -> None:
    """Speak HTTP/1.1 to the upstream whatever the client speaks, and remember what it expects."""
    exchange.old_client = request.http_version == "HTTP/1.0"
    exchange.close_after = asked_to_close or exchange.old_client
    request.http_version = "HTTP/1.1"
    # mitmproxy answers 100-continue itself, and takes the header away when it has.
    if request.headers.get("expect", "").lower() != "100-continue":
        request.headers.pop("expect", None)


def _longest_silence_s(settings: Settings) -> int:
    """mitmproxy's own timeout counts any silence of a client; ours must always come first."""
    timeouts = settings.upstream_timeout
    return math.ceil(max(timeouts.connect, timeouts.first_byte, timeouts.idle)) + 60


def _json_response(status: int, body: bytes) -> http.Response:
    fields = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
    return http.Response.make(status, body, http.Headers(fields))
