"""The choice of who responds to a request once its head is received: the proxy, the web process, or
upstream."""

from collections.abc import Awaitable

from mitmproxy import http

from addon import browsers, headers
from addon.browsers import BrowserRules
from addon.destination import Destination
from addon.errors import Refusal
from addon.health import HealthChecks
from addon.replays import TICKET, ReplayRules
from addon.responder import ORIGIN
from addon.routing import find_route
from addon.upstream_forwarding import UpstreamForwarder
from addon.web_forwarding import WebForwarder

type OwnResponse = Refusal | http.Response


class Dispatcher:
    """Decides who responds to a request."""

    def __init__(
        self,
        browser_rules: BrowserRules,
        replay_rules: ReplayRules,
        health_checks: HealthChecks,
        web: WebForwarder,
        upstream: UpstreamForwarder,
    ) -> None:
        self._browsers = browser_rules
        self._replays = replay_rules
        self._health_checks = health_checks
        self._web = web
        self._upstream = upstream

    def dispatch(self, flow: http.HTTPFlow) -> OwnResponse | Awaitable[OwnResponse | None] | None:
        """Forward a request and return None, or return the response to send instead.

        That response may be an awaitable, which may result in None."""
        request = flow.request
        request.data.authority = b""  # an absolute-form target would be passed on as one
        method, path = request.method, request.path
        if path.startswith("/proxy/"):
            response = self._judge_browser(flow, method, path)
            if response is not None:
                return response
        route = find_route(method, path)
        if isinstance(route, Refusal):
            return route
        match route.destination:
            case Destination.WEB:
                if path == "/metrics" and self._health_checks.has_metrics:
                    return self._health_checks.respond_with_metrics(request)
                return self._web.forward(flow)
            case Destination.LIVE:
                return self._health_checks.respond_live()
            case Destination.HEALTH:
                return self._health_checks.respond(request)
        return self._upstream.forward(flow, route)

    def _judge_browser(self, flow: http.HTTPFlow, method: str, path: str) -> OwnResponse | None:
        """Return the response for a browser that is not to be forwarded, or None.

        The origin of an allowed page is noted in the flow."""
        fields, found = flow.request.headers.fields, headers.index_of(flow.request.headers)
        if TICKET in found and (ours := self._replays.find_origin(method, path, fields)):
            flow.metadata[ORIGIN] = ours
            return None
        verdict = self._browsers.judge(method, found)
        if not isinstance(verdict, bytes):
            return verdict
        if browsers.is_preflight(method, found):
            allowed = browsers.make_preflight_fields(found, verdict)
            return http.Response.make(200, b"", http.Headers(allowed))
        flow.metadata[ORIGIN] = verdict
        return None
