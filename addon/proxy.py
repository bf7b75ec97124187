"""``UsageProxy``, the mitmproxy addon: route, limit, forward, copy into the spool.

The hooks only translate between mitmproxy's flows and the modules beside this one. A client
connection carries one exchange at a time (HTTP/1 without pipelining), so exchanges are kept by the
id of their client connection, which is also what the connection hooks know.
"""

import asyncio
import logging
import math
import os
import time
from collections.abc import Awaitable
from urllib.parse import urlsplit

from mitmproxy import addonmanager, ctx, http
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import TlsData

from addon import errors, headers, mitmproxy_patches, reading, request_heads
from addon.body_memory import BodyMemory
from addon.browsers import BrowserRules
from addon.capture import Spooler
from addon.dispatch import LOGGED_REQUEST_LIMIT_BYTES, ORIGIN, Dispatcher
from addon.errors import Refusal
from addon.exchange import Exchange, Phase
from addon.outcome import explain_failure
from addon.request_heads import RequestHeads
from addon.responder import Responder
from addon.wiring import Wiring
from runtime import readiness
from runtime.settings import Settings

logger = logging.getLogger(__name__)

TICK_S = 0.25
HOUSEKEEPING_S = 2.0


class UsageProxy:
    largest_held_bytes = LOGGED_REQUEST_LIMIT_BYTES

    def __init__(self, settings: Settings, wiring: Wiring) -> None:
        self._settings = settings
        self._spooler = Spooler(
            settings.spool_path, settings.disk_reserve, wiring.fingerprint_key, settings.vendor
        )
        self._exchanges: dict[str, Exchange] = {}
        self._memory = BodyMemory(settings.request_memory)
        self._heads = RequestHeads(self._memory)
        self._responder = Responder()
        self._browsers = BrowserRules(
            settings.allowed_origins, settings.vendor, urlsplit(settings.base_url).hostname
        )
        self._dispatcher = Dispatcher(
            settings, wiring, self._exchanges, self._memory, self._spooler, self._browsers
        )
        self._draining = False
        self._ticker: asyncio.Task[None] | None = None

    # -- life of the process ----------------------------------------------------------------------

    def load(self, _loader: addonmanager.Loader) -> None:
        mitmproxy_patches.patch_core()
        reading.patch_core(self)
        request_heads.patch_core(self._heads)
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
        for server in list(mitmproxy_patches.proxyserver(ctx.master).servers):
            if server.is_running:
                await server.stop()
        deadline_s = time.monotonic() + self._settings.drain_seconds
        connections = mitmproxy_patches.proxyserver(ctx.master).connections
        idle_before: set[tuple[object, ...] | str] = set()
        while connections and time.monotonic() < deadline_s:
            idle = {id_ for id_ in connections if id_ not in self._exchanges}
            # Right after an exchange ends, its last bytes are still to be written: look twice.
            for id_ in idle & idle_before:
                mitmproxy_patches.close_client(connections[id_])
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
        self._dispatcher.close()

    async def _tick(self) -> None:
        last_housekeeping_s = 0.0
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            try:
                self._close_overdue(now_s)
                self._close_slow_heads(now_s)
                self._responder.close_overdue(now_s)
                if now_s - last_housekeeping_s >= HOUSEKEEPING_S:
                    last_housekeeping_s = now_s
                    self._memory.give_back()
                    self._spooler.check_disk()
                    self._spooler.flush_rejections()
                    self._dispatcher.keep_house(now_s)
            except Exception:
                # The next tick tries again; ending here would end every timeout.
                logger.exception("Housekeeping failed")

    def _close_overdue(self, now_s: float) -> None:
        connections = mitmproxy_patches.proxyserver(ctx.master).connections
        request_idle_s = self._settings.request_idle_seconds
        for client_id, exchange in list(self._exchanges.items()):
            handler = connections.get(client_id)
            if handler is None:
                self._give_up(client_id, exchange)
                continue
            if exchange.timed_out is not None:
                continue
            silent_s = now_s - exchange.waiting_since_s
            if exchange.waits_for_client and not mitmproxy_patches.is_upstream_behind(handler):
                if silent_s > request_idle_s:
                    refusal = errors.request_stalled(request_idle_s)
                    self._responder.send_last(handler, self._prepare(refusal, exchange.origin))
                    mitmproxy_patches.close_client(
                        handler
                    )  # what has come of its body takes memory
            elif exchange.phase is not Phase.REQUEST:
                allowed_s: float = getattr(self._settings.upstream_timeout, exchange.phase.value)
                if silent_s > allowed_s:
                    exchange.timed_out = exchange.phase
                    mitmproxy_patches.close_upstream(handler)

    def _give_up(self, client_id: str, exchange: Exchange) -> None:
        """Let go of an exchange whose connection has ended without a hook: the core has crashed on it,
        and has logged that."""
        del self._exchanges[client_id]
        self._memory.release(client_id)
        if exchange.may_be_sent:
            exchange.finish("client_disconnected")
        else:
            exchange.discard()

    def _close_slow_heads(self, now_s: float) -> None:
        idle_s = self._settings.request_idle_seconds
        connections = mitmproxy_patches.proxyserver(ctx.master).connections
        for client_id, has_begun in self._heads.take_overdue(now_s - idle_s):
            handler = connections.get(client_id)
            if handler is not None:
                refusal = errors.slow_head(idle_s)
                mitmproxy_patches.close_client(
                    handler, mitmproxy_patches.to_response(refusal) if has_begun else None
                )

    # -- hooks of a client connection --------------------------------------------------------------

    def client_connected(self, client: Client) -> None:
        self._heads.await_first(client.id)

    def client_disconnected(self, client: Client) -> None:
        self._heads.forget(client.id)

    # -- hooks of a flow --------------------------------------------------------------------------

    def requestheaders(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Return an awaitable for ``/healthz``, otherwise None."""
        if flow.error:  # the core has refused it: CONNECT, smuggling attempts, broken headers
            return None
        fault = headers.find_fault(flow.request.headers.fields)
        if fault is not None:
            self._responder.respond_at_once(
                flow, mitmproxy_patches.to_response(errors.bad_header(fault))
            )
            return None
        try:
            response = self._dispatcher.direct(flow)
        except Exception:
            # mitmproxy would log this and forward the request as it stands, unfiltered.
            logger.exception("A request failed before it was forwarded")
            response = errors.internal_error()
        if isinstance(response, Refusal | http.Response):
            self._respond(flow, response)
        elif response is not None:
            return self._respond_later(flow, response)
        return None

    def may_hold(self, flow: http.HTTPFlow, held_bytes: int) -> bool:
        """See ``reading.Rules``."""
        client_id = flow.client_conn.id
        exchange = self._exchanges.get(client_id)
        if exchange is None:
            return True  # answered here, and small
        exchange.waiting_since_s = time.monotonic()
        if self._memory.hold(client_id, held_bytes):
            return True
        self._responder.respond_at_once(flow, self._prepare(errors.memory_full(), exchange.origin))
        return False

    def may_hold_early(self, client_id: str, held_bytes: int) -> bool:
        """See ``reading.Rules``."""
        return self._heads.hold(client_id, held_bytes)

    def lets_go(self, flow: http.HTTPFlow) -> None:
        """See ``reading.Rules``."""
        exchange = self._exchanges.get(flow.client_conn.id)
        if exchange is not None:  # else its head has only just come
            self._memory.release(flow.client_conn.id)
            flow.request.stream = exchange.pass_request_chunk

    def request(self, flow: http.HTTPFlow) -> None:
        exchange = self._exchanges.get(flow.client_conn.id)
        if exchange is None:
            self._responder.forget(flow.client_conn.id)
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
        self._strip_for_page(response, exchange.origin)
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
        handler = mitmproxy_patches.find_handler(ctx.master, flow.client_conn)
        if handler is None:
            return
        mitmproxy_patches.drop_unsent(handler)
        if client_left:
            return
        if not exchange.response_started:
            self._responder.send_last(handler, self._prepare(failure.refusal, exchange.origin))
        elif exchange.old_client:
            mitmproxy_patches.reset_client(handler)

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
                exchange.run_id,
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

    # -- responses of our own ----------------------------------------------------------------------

    async def _respond_later(self, flow: http.HTTPFlow, response: Awaitable[http.Response]) -> None:
        self._respond(flow, await response)

    def _respond(self, flow: http.HTTPFlow, own: Refusal | http.Response) -> None:
        response = self._prepare(own, flow.metadata.get(ORIGIN))
        if self._draining:
            response.headers["connection"] = "close"
        self._responder.respond(flow, response)

    def _prepare(self, own: Refusal | http.Response, origin: bytes | None) -> http.Response:
        """Return the response that a client gets; ``origin`` is the listed one of its page."""
        response = mitmproxy_patches.to_response(own) if isinstance(own, Refusal) else own
        self._strip_for_page(response, origin)
        return response

    def _strip_for_page(self, response: http.Response, origin: bytes | None) -> None:
        if origin is not None:
            fields = self._browsers.returned(response.headers.fields, origin)
            response.headers.fields = fields


def _longest_silence_s(settings: Settings) -> int:
    """mitmproxy's own timeout counts any silence of a client; ours must always come first."""
    timeouts = settings.upstream_timeout
    return math.ceil(max(timeouts.connect, timeouts.first_byte, timeouts.idle)) + 60
