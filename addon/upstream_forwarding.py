"""Forwarding to the upstream: requests to a proxy endpoint are checked and sent on."""

import logging
import sqlite3
from collections.abc import Awaitable

from mitmproxy import http

from addon import errors, headers
from addon.body_memory import BodyMemory
from addon.budgets import Budgets
from addon.client_address import read_client_address
from addon.core import connections
from addon.credentials import MAX_FOUND, find_service_keys
from addon.destination import Destination
from addon.errors import Refusal
from addon.exchange import Exchange
from addon.exchanges import Exchanges
from addon.rate_limits import CallLimits, RateLimits
from addon.responder import ORIGIN
from addon.routing import Route
from runtime.attempts import client_network
from runtime.setting_values import is_loopback
from runtime.settings import Settings
from runtime.trouble_log import TroubleLog
from store.control.database import ProxyEndpoint, SlugDirectory
from store.spool.format import CALLS

logger = logging.getLogger(__name__)

# Above the upstream's own limit of 32 MB, so that it is the upstream that refuses.
LOGGED_REQUEST_LIMIT_BYTES = 33 * 1024 * 1024


class UpstreamForwarder:
    """Forwards requests to the upstream if slug, limits and memory allow."""

    def __init__(
        self,
        settings: Settings,
        exchanges: Exchanges,
        memory: BodyMemory,
        rate_limits: RateLimits,
        budgets: Budgets,
        call_limits: CallLimits | None = None,
    ) -> None:
        """Forward requests that ``call_limits`` admits, or if that is None, ``rate_limits``."""
        self._upstreams = {
            name: (url, url.authority.encode())
            for name, url in [(None, settings.upstream_url), *settings.upstreams.items()]
        }
        self._proxy = settings.upstream_proxy
        self._streaming = settings.streaming
        self._trusted_proxies = settings.trusted_proxies
        self._exchanges = exchanges
        self._memory = memory
        self._budgets = budgets
        self._rate_limits = rate_limits
        self._call_limits = call_limits
        self._is_proxy = "proxy" in settings.node.parts
        self._must_learn_slugs = self._is_proxy and "web" not in settings.node.parts
        self.slugs = SlugDirectory(settings.control_path)
        self._filter = headers.RequestFilter(settings.vendor, settings.forward_headers)
        self._directory_trouble = TroubleLog(
            logger, "control.db cannot be read (%s): slugs not seen before get 503"
        )

    def forward(
        self, flow: http.HTTPFlow, route: Route
    ) -> Refusal | http.Response | Awaitable[Refusal | None] | None:
        """Forward a request and return None, or return the response to send instead.

        With ``call_limits`` the result may be an awaitable of either."""
        if not self._is_proxy:
            return errors.NOT_A_PROXY_NODE
        found = headers.index_of(flow.request.headers)
        endpoint = self._find_endpoint(flow.request, route.slug)
        if isinstance(endpoint, Refusal):
            return endpoint
        if route.destination is Destination.PROBE:
            return http.Response.make(200)
        client = client_network(read_client_address(flow, self._trusted_proxies))
        refusal = self._judge(flow.request, found, route, endpoint, client)
        if refusal is not None:
            return refusal
        if self._call_limits is not None:
            return self._forward_if_admitted(flow, route, endpoint, client, self._call_limits)
        refusal = self._rate_limits.admit(route.destination, endpoint)
        if refusal is None:
            self._send_on(flow, route, endpoint, client)
        return refusal

    async def _forward_if_admitted(
        self,
        flow: http.HTTPFlow,
        route: Route,
        endpoint: ProxyEndpoint,
        client: str,
        limits: CallLimits,
    ) -> Refusal | None:
        client_id = flow.client_conn.id
        self._exchanges.undecided.add(client_id)
        try:
            refusal = await limits.admit(route.destination, endpoint)
        finally:
            self._exchanges.undecided.discard(client_id)
        if refusal is None:
            self._send_on(flow, route, endpoint, client)
        return refusal

    def knows_slugs(self) -> bool:
        """Return whether the slugs are known.

        A new node gets them from another node, which may be away at its first start."""
        if not self._must_learn_slugs:
            return True
        try:
            return self.slugs.has_any()
        except sqlite3.Error:
            return True  # those that were looked up are

    def _find_endpoint(self, request: http.Request, slug: str) -> ProxyEndpoint | Refusal:
        """Return the endpoint of a slug, or a refusal: for an unknown slug, or a request with a service API
        key."""
        try:
            found = find_service_keys(request.path, request.headers.fields)
            if len(found) > MAX_FOUND or any(map(self.slugs.knows_key, found)):
                return errors.SERVICE_KEY
            endpoint = self.slugs.find(slug)
        except sqlite3.Error as error:
            self._directory_trouble.report(str(error))
            return errors.DIRECTORY_UNAVAILABLE
        self._directory_trouble.clear()
        if endpoint is not None:
            return endpoint
        return errors.unknown_slug(slug) if self.knows_slugs() else errors.DIRECTORY_UNAVAILABLE

    def _choose_filter(self, flow: http.HTTPFlow, route: Route) -> headers.Filter:
        """Return the filter for the request's headers.

        For requests from the forward proxy of a run all headers pass, as the client would have sent
        them itself. Pages cannot ask for that, since their cookies may be ours."""
        if route.run_id is None or flow.metadata.get(ORIGIN) is not None:
            return self._filter
        asked = headers.index_of(flow.request.headers).get(headers.WANTED)
        return headers.keep_all if asked == headers.ALL else self._filter

    def _judge(
        self,
        request: http.Request,
        found: headers.Index,
        route: Route,
        endpoint: ProxyEndpoint,
        client_address: str,
    ) -> Refusal | None:
        """Return the refusal of a request, rate limits apart, or None if it is admitted."""
        if b"upgrade" in found:
            return errors.UPGRADE_REFUSED
        if endpoint.upstream not in self._upstreams:
            return errors.unknown_upstream(endpoint.slug, f"{endpoint.upstream}")
        over_budget = self._budgets.admit(endpoint) if route.is_billed else None
        if over_budget is not None:
            return over_budget
        if route.record in CALLS:
            if request.stream:  # declared larger than what is buffered
                return errors.too_large(LOGGED_REQUEST_LIMIT_BYTES)
            declared_bytes = headers.declared_bytes(found)
            if not self._memory.has_room(declared_bytes, client_address):
                return errors.MEMORY_FULL
        return None

    def _send_on(
        self, flow: http.HTTPFlow, route: Route, endpoint: ProxyEndpoint, client_address: str
    ) -> None:
        request = flow.request
        upstream, host = self._upstreams[endpoint.upstream]
        connections.set_destination(request, upstream.scheme, upstream.host, upstream.port)
        if self._proxy is not None and not is_loopback(upstream.host):
            connections.set_proxy(flow, self._proxy)
        request.path = upstream.prefix + route.target
        found = headers.index_of(request.headers)
        passed = self._choose_filter(flow, route)(request.headers.fields)
        request.headers.fields = headers.with_host(passed, host)
        is_call = route.record in CALLS
        mode = endpoint.streaming or self._streaming
        exchange = Exchange(
            endpoint=endpoint,
            client_address=client_address,
            origin=flow.metadata.get(ORIGIN),
            target=route.target,
            client_headers=found if route.record else {},
            run_id=route.run_id,
            record=route.record,
            is_buffered=is_call and mode == "buffered",
        )
        self._exchanges.begin(flow, exchange, found)
        if not is_call:
            request.stream = exchange.pass_request_chunk
