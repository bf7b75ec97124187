"""``UsageProxy``, the mitmproxy addon, whose hooks call the other modules of this room."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable
from urllib.parse import urlsplit

from mitmproxy import addonmanager, ctx, http
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import TlsData

from addon import errors, headers, mitmproxy_patches
from addon.body_memory import BodyMemory
from addon.browsers import BrowserRules
from addon.budgets import Budgets
from addon.core import connections
from addon.dispatch import Dispatcher, OwnResponse
from addon.draining import Draining
from addon.errors import Refusal
from addon.exchange import Exchange, Phase
from addon.exchanges import Exchanges
from addon.head_metadata import RequestMetadata, ResponseMetadata
from addon.health import HealthChecks
from addon.held_requests import HeldRequestPolicy
from addon.idle_connections import IdleConnections
from addon.outcome import explain_failure
from addon.periodic_tasks import PeriodicTasks
from addon.process_config import ProcessConfig
from addon.rate_limits import RateLimits
from addon.replays import ReplayRules
from addon.request_heads import RequestHeads
from addon.responder import Responder
from addon.spooler import Spooler
from addon.timeouts import Timeouts, compute_longest_silence_s
from addon.upstream_forwarding import LOGGED_REQUEST_LIMIT_BYTES, UpstreamForwarder
from addon.web_forwarding import WebForwarder
from runtime import extensions, readiness
from runtime.descriptors import AcceptErrors
from runtime.settings import Settings
from runtime.worker_board import WorkerBoard
from store.budget_file import BudgetFile

logger = logging.getLogger(__name__)


class UsageProxy:
    """Routes, limits and forwards requests, and copies them and their responses into the spool."""

    def __init__(self, settings: Settings, config: ProcessConfig) -> None:
        self._settings = settings
        host = urlsplit(settings.base_url).hostname
        self._browsers = BrowserRules(settings.allowed_origins, settings.vendor, host)
        self.draining = Draining(settings.drain_seconds)
        self._responder = Responder(self._browsers, self.draining)
        self._requests = RequestMetadata(config.fingerprint_key, settings.vendor)
        responses = ResponseMetadata(settings.vendor)
        root, reserve = settings.proxy_spool_path, settings.disk_reserve
        self._spooler = Spooler(root, reserve, self._requests, responses, settings.workers)
        memory = BodyMemory(settings.request_memory, config.board)
        self._heads = RequestHeads(memory, config.board, settings.request_head)
        self._exchanges = Exchanges(memory, config.board)
        self._idle_connections = IdleConnections()
        self._held_requests = HeldRequestPolicy(
            self._exchanges, memory, self._heads, self._responder, LOGGED_REQUEST_LIMIT_BYTES
        )
        rejections = self._spooler.rejections
        rate_limits = RateLimits(config.windows, rejections.count)
        budgets = Budgets(BudgetFile(settings.data_dir), rejections.count_over_budget)
        limits = extensions.call().call_limits(
            settings=settings, own=rate_limits, count_rejection=rejections.count
        )
        self._upstream = UpstreamForwarder(
            settings, self._exchanges, memory, rate_limits, budgets, limits
        )
        self._web = WebForwarder(settings, config, self._exchanges)
        health = HealthChecks(
            settings, config, self._spooler.troubles, knows_slugs=self._upstream.knows_slugs
        )
        replays = ReplayRules(config.client_token, host)
        self._dispatcher = Dispatcher(self._browsers, replays, health, self._web, self._upstream)
        self._periodic_tasks = self._list_periodic_tasks(config.board, memory, budgets)

    def _list_periodic_tasks(
        self, board: WorkerBoard, memory: BodyMemory, budgets: Budgets
    ) -> PeriodicTasks:
        timeouts = Timeouts(self._settings, self._exchanges, self._heads, self._responder)
        return PeriodicTasks(
            often=(
                board.beat,
                lambda _now_s: self._spooler.troubles.publish(board),
                timeouts.close_overdue,
                timeouts.close_slow_heads,
                self._idle_connections.make_room,
                self._responder.close_overdue,
                budgets.refresh,
            ),
            seldom=(
                lambda _now_s: memory.give_back(),
                lambda _now_s: self._spooler.check_disk(),
                lambda _now_s: self._spooler.flush_rejections(),
                lambda _now_s: self._upstream.slugs.notice_replacement(),
                lambda _now_s: self._renew_fingerprint_key(),
            ),
        )

    def _renew_fingerprint_key(self) -> None:
        """Read the fingerprint key again from ``control.db``.

        It changes when a backup is restored, and on a new proxy node once it has the key of the node
        with the pages."""
        self._requests.fingerprint_key = (
            self._upstream.slugs.find_fingerprint_key() or self._requests.fingerprint_key
        )

    # -- life of the process ----------------------------------------------------------------------

    def load(self, _loader: addonmanager.Loader) -> None:
        """Patch mitmproxy and set its options. Raises MitmproxyChangedError for an unsuitable mitmproxy."""
        mitmproxy_patches.patch_core(self._held_requests)
        ctx.options.update(
            mode=[f"reverse:{self._settings.upstream_url.origin}"],
            listen_host=self._settings.listen.host,
            listen_port=self._settings.listen.port,
            connection_strategy="lazy",
            keep_host_header=True,
            http2=False,
            websocket=False,
            rawtcp=False,
            stream_large_bodies=f"{LOGGED_REQUEST_LIMIT_BYTES}",
            tcp_timeout=compute_longest_silence_s(self._settings),
            ssl_verify_upstream_trusted_ca=os.environ.get("SSL_CERT_FILE") or None,
        )

    def running(self) -> None:
        # Nothing more is done here: mitmproxy exits when an error is logged while it starts, and a
        # full disk is an error, but no reason to let nobody through.
        accept_errors = AcceptErrors(logger, self._idle_connections.make_room)
        accept_errors.watch(asyncio.get_running_loop())
        self._periodic_tasks.start()
        readiness.announce()

    async def done(self) -> None:
        await self.draining.drain(self._exchanges)
        self._periodic_tasks.stop()
        self._exchanges.abandon_all()  # what is still open now is cut
        self._spooler.close()
        self._upstream.slugs.close()

    # -- hooks of a client connection --------------------------------------------------------------

    def client_connected(self, client: Client) -> None:
        self._heads.await_first(client.id)
        self._idle_connections.begin(client.id)

    def client_disconnected(self, client: Client) -> None:
        self._heads.forget(client.id)
        self._idle_connections.end(client.id)

    # -- hooks of a flow --------------------------------------------------------------------------

    def requestheaders(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Handle the head of a request: forward it or respond.

        Returns an awaitable for ``/healthz``, and for calls with ``CallLimits``, otherwise None."""
        if flow.error:  # mitmproxy has refused it: CONNECT, smuggling attempts, broken headers
            return None
        fault = headers.find_fault(headers.index_of(flow.request.headers))
        if fault is not None:
            self._responder.respond_at_once(flow, errors.bad_header(fault))
            return None
        try:
            response = self._dispatcher.dispatch(flow)
        except Exception:
            # mitmproxy would log this and forward the request as it stands, unfiltered.
            logger.exception("A request failed before it was forwarded")
            response = errors.INTERNAL_ERROR
        if isinstance(response, Refusal | http.Response):
            self._responder.respond(flow, response)
        elif response is not None:
            return self._respond_later(flow, response)
        else:
            self._note_forwarding(flow)
        return None

    async def _respond_later(
        self, flow: http.HTTPFlow, awaited: Awaitable[OwnResponse | None]
    ) -> None:
        try:
            response = await awaited
        except Exception:
            logger.exception("A request failed before it was forwarded")
            response = errors.INTERNAL_ERROR
        if response is None:
            self._note_forwarding(flow)
        else:
            self._responder.respond(flow, response)

    def _note_forwarding(self, flow: http.HTTPFlow) -> None:
        exchange = self._exchanges.find(flow.client_conn.id)
        if exchange is None or exchange.endpoint is not None:
            self._idle_connections.end(flow.client_conn.id)

    def request(self, flow: http.HTTPFlow) -> None:
        exchange = self._exchanges.find(flow.client_conn.id)
        if exchange is None:
            self._responder.forget(flow.client_conn.id)
            return
        if exchange.endpoint is None:
            refusal = self._web.admit(flow, exchange)
            if refusal is not None:
                self._exchanges.remove(flow.client_conn.id)
                self._responder.respond_to_whole(flow, refusal, close_after=exchange.close_after)
                return
        self._idle_connections.end(flow.client_conn.id)
        exchange.request_is_whole = True
        exchange.request_done_s = time.monotonic()
        if not flow.request.stream:
            self._capture(flow, exchange)
        exchange.own_s += time.monotonic() - exchange.request_done_s
        if not exchange.response_started:  # an upstream may respond before an upload ends
            exchange.enter(Phase.FIRST_BYTE)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        exchange, response = self._exchanges.find(flow.client_conn.id), flow.response
        if exchange is None or response is None:
            return
        arrived_s = exchange.last_byte_s = time.monotonic()
        exchange.enter(Phase.IDLE)
        exchange.response_started = True
        is_kept = response.status_code == 200 or not exchange.is_report
        if exchange.capture is None and flow.request.stream and is_kept:
            # A report, or an upload of unknown length that grew too large to keep.
            self._capture(flow, exchange)
        flow.request.data.content = None  # it is sent and spooled; a stream may go on for minutes
        self._exchanges.begin_response(flow.client_conn.id, exchange)
        found = headers.index_of(response.headers)
        if exchange.capture is not None:
            exchange.capture.write_response_head(
                response.status_code, found, exchange.elapsed_ms(arrived_s)
            )
        response.headers.fields = headers.returned(response.headers.fields, found)
        if exchange.origin is not None:
            fields = self._browsers.returned(response.headers.fields, exchange.origin)
            response.headers.fields = fields
        exchange.is_endless = exchange.endpoint is None and headers.is_event_stream(found)
        if exchange.is_http_1_0:
            response.headers.pop("transfer-encoding", None)
        if exchange.close_after or self.draining.has_begun:
            response.headers["connection"] = "close"
        response.stream = exchange.take_chunk
        exchange.own_s += time.monotonic() - arrived_s

    def response(self, flow: http.HTTPFlow) -> None:
        exchange = self._exchanges.end(flow)
        if exchange is not None:
            exchange.finish("complete")
        if flow.client_conn.connected:
            self._idle_connections.begin(flow.client_conn.id)

    def error(self, flow: http.HTTPFlow) -> None:
        exchange = self._exchanges.end(flow)
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
        if exchange.capture is None and was_sent and not exchange.is_report:
            self._capture(flow, exchange)
        if failure.outcome == "client_disconnected" and not was_sent:
            exchange.discard()
        else:
            exchange.finish(failure.outcome, failure.error_type)
        handler = connections.find_handler(flow.client_conn.id)
        if handler is None:
            return
        connections.drop_unsent(handler)
        if client_left:
            return
        if not exchange.response_started:
            self._responder.send_last(handler, failure.refusal, exchange.origin)
        elif exchange.is_http_1_0:
            connections.reset_client(handler)

    def _capture(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        # Not those that are forwarded: some that are not say what a call belongs to.
        self._spooler.capture(exchange, exchange.client_headers, flow.request.raw_content)
        if exchange.capture is not None:
            exchange.client_headers = {}  # a stream may go on for minutes

    # -- hooks of an upstream connection ----------------------------------------------------------

    def http_connect_upstream(self, flow: http.HTTPFlow) -> None:
        proxy = self._settings.upstream_proxy
        if proxy is not None and proxy.authorization is not None:
            flow.request.headers["proxy-authorization"] = proxy.authorization.decode()

    def server_connect(self, data: ServerConnectionHookData) -> None:
        self._exchanges.enter(data.client.id, Phase.CONNECT)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        if not data.server.tls and not self._is_on_the_way(data):
            self._exchanges.enter(data.client.id, Phase.FIRST_BYTE)

    def _is_on_the_way(self, data: ServerConnectionHookData) -> bool:
        """Return whether this is a connection to an HTTP proxy that TLS to the upstream passes through."""
        proxy, exchange = self._settings.upstream_proxy, self._exchanges.find(data.client.id)
        if proxy is None or data.server.address != (proxy.host, proxy.port):
            return False
        if exchange is None or exchange.endpoint is None:
            return False
        upstream = self._settings.find_upstream(exchange.endpoint.upstream)
        return upstream is not None and upstream.scheme == "https"

    def tls_established_server(self, data: TlsData) -> None:
        self._exchanges.enter(data.context.client.id, Phase.FIRST_BYTE)
