"""``/livez`` and ``/healthz``: whether the proxy serves, all processes run, and calls are recorded.

Each worker's ``/healthz`` covers all workers. On a node without pages this module also serves
``/metrics``."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from mitmproxy import http

from addon import errors, headers
from addon.errors import Refusal
from addon.own_responses import make_json_response
from addon.process_config import ProcessConfig
from addon.spool_troubles import SpoolTroubles
from runtime import extensions
from runtime.child_troubles import read_troubles
from runtime.extension_states import ExtensionState, ExtensionStates
from runtime.extension_values import Gauge
from runtime.heartbeat import Heartbeat
from runtime.local_requests import parse_host
from runtime.settings import Settings, is_loopback
from runtime.worker_board import Shared

WEB_TIMEOUT_S = 2.0
METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
NO_SLUGS = "this node has not got the endpoints yet"


class HealthChecks:
    """Responds to ``/livez``, ``/healthz`` and ``/metrics``.

    It reads the files of other processes and the board of workers, and requests ``/livez`` of the web
    process."""

    def __init__(
        self,
        settings: Settings,
        config: ProcessConfig,
        troubles: SpoolTroubles,
        *,
        knows_slugs: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._web_port = config.web_port
        self._board = config.board
        self._troubles = troubles
        self._knows_slugs = knows_slugs

    def respond_live(self) -> http.Response:
        """Return the response to ``/livez``: 503 if the proxy would refuse every call."""
        if self._knows_slugs():
            return make_json_response(200, b'{"status":"ok"}')
        return make_json_response(503, orjson.dumps({"status": "failing", "reasons": [NO_SLUGS]}))

    def respond(self, request: http.Request) -> Refusal | Awaitable[http.Response]:
        """Return an awaitable of the response to ``/healthz``, or a refusal at once."""
        return _refuse_body(request) or self._respond_with_report(request)

    @property
    def has_metrics(self) -> bool:
        """Return whether ``/metrics`` is served here, which is so on a node without pages."""
        return not self._settings.has_pages

    def respond_with_metrics(self, request: http.Request) -> Refusal | Awaitable[http.Response]:
        """Return an awaitable of the response to ``/metrics``, or a refusal at once."""
        return _refuse_body(request) or self._respond_with_metrics()

    async def _respond_with_metrics(self) -> http.Response:
        document, gauges = await self._describe(with_lines=False)
        fields = ((b"content-type", METRICS_TYPE), (b"cache-control", b"no-store"))
        return http.Response.make(200, render_metrics(document, gauges), http.Headers(fields))

    async def _respond_with_report(self, request: http.Request) -> http.Response:
        with_lines = self._settings.is_local and is_loopback_name(request.host_header)
        document, _ = await self._describe(with_lines=with_lines)
        return make_json_response(503 if document["reasons"] else 200, orjson.dumps(document))

    async def _describe(self, *, with_lines: bool) -> tuple[dict[str, Any], list[Gauge]]:
        """Return the document of ``/healthz``, and the gauges of the extensions.

        ``with_lines``: include the last lines of processes that are down, which contain paths."""
        data_dir = self._settings.data_dir
        heartbeat, troubles = Heartbeat.read(data_dir), read_troubles(data_dir)
        of_extensions = extensions.call().health(node=self._settings.node, data_dir=data_dir)
        elsewhere = await self._find_reasons_elsewhere(heartbeat)
        of_others = [reason for each in of_extensions for reason in each.reasons]
        found = (*map(str, troubles), *elsewhere, *of_others, *self._find_reasons_here())
        reasons = list(dict.fromkeys(found))
        document: dict[str, Any] = {
            "status": "failing" if reasons else "ok",
            "reasons": reasons,
            "not_kept": {
                "calls": self._board.total(Shared.CALLS_NOT_KEPT),
                "responses": self._board.total(Shared.RESPONSES_NOT_KEPT),
                "request_bodies": self._board.total(Shared.REQUEST_BODIES_NOT_KEPT),
            },
        }
        others = ExtensionStates.read(data_dir).extensions
        if others:
            document["extensions"] = {each.name: _describe(each, with_lines) for each in others}
        if troubles and with_lines:
            document["last_lines"] = {each.name: each.last_lines for each in troubles}
        if heartbeat is not None:
            document["recorder"] = {
                "waiting": heartbeat.waiting,
                "stuck_organizations": heartbeat.stuck_organizations,
                "unreadable_files": heartbeat.unreadable,
            }
        for each in of_extensions:
            document |= each.document
        return document, [gauge for each in of_extensions for gauge in each.gauges]

    async def _find_reasons_elsewhere(self, heartbeat: Heartbeat | None) -> list[str]:
        """Return the problems of recorder and web process."""
        reasons = []
        if heartbeat is None or not heartbeat.is_fresh:
            reasons.append("the recorder is not running; calls wait in the spool")
        if self._settings.has_pages and not await self._is_web_up():
            reasons.append("the web process does not respond")
        if heartbeat is not None and heartbeat.stuck_organizations:
            reasons.append("a trace database cannot be written; its calls wait in the spool")
        return reasons

    def _find_reasons_here(self) -> Iterator[str]:
        """Yield the problems of the spool and of the proxy's workers."""
        self._troubles.publish(self._board)
        if self._troubles.current is not None:
            yield self._troubles.current
        if missing := self._board.count_missing():
            yield f"{missing} of the proxy's workers do not accept calls"
        yield from self._board.troubles_of_others()

    async def _is_web_up(self) -> bool:
        if self._web_port is None:
            return False
        try:
            async with asyncio.timeout(WEB_TIMEOUT_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._web_port)
                try:
                    writer.write(b"GET /livez HTTP/1.0\r\nhost: localhost\r\n\r\n")
                    status_line = await reader.readline()
                finally:
                    writer.close()
        except OSError:  # TimeoutError is one
            return False
        return status_line.split(b" ")[1:2] == [b"200"]


def _refuse_body(request: http.Request) -> Refusal | None:
    """Return a refusal of a request with a body, or None.

    Such a request could hold memory without limit while the report is made."""
    has_body = headers.announces_body(headers.index_of(request.headers))
    return errors.UNEXPECTED_BODY if has_body else None


def _describe(extension: ExtensionState, with_problem: bool) -> str:
    """Return a line on a third-party extension. ``with_problem`` includes its error, which may quote a
    path."""
    if extension.problem is None:
        return "ok"
    reason = extension.problem if with_problem else "see the server log"
    return f"left out: {reason}"


def is_loopback_name(host_header: str | None) -> bool:
    """Return whether the Host header is a loopback name.

    No page on the internet can make a browser send that to this machine."""
    host = parse_host(host_header or "")
    return host is not None and is_loopback(host)


def render_metrics(document: Mapping[str, Any], gauges: Sequence[Gauge]) -> bytes:
    """Return the figures of ``/healthz`` (``document``) and ``gauges`` in the format of Prometheus.

    ``/metrics`` needs no more rights than ``/healthz``. The web process has more metrics; shared ones
    have the same names."""
    not_kept = "taximeter_not_kept_total"
    lines = [f"# TYPE {not_kept} counter"]
    lines += [f'{not_kept}{{kind="{kind}"}} {n}' for kind, n in document["not_kept"].items()]
    for name, _, value in (("taximeter_healthy", "", int(not document["reasons"])), *gauges):
        lines += [f"# TYPE {name} gauge", f"{name} {value}"]
    return "".join(f"{line}\n" for line in lines).encode()
