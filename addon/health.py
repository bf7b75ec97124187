"""``/livez`` and ``/healthz``: whether the proxy serves, all processes are up, and calls are kept.

Whichever worker is asked, ``/healthz`` covers all of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
from mitmproxy import http

from addon import errors, headers, node_metrics
from addon.errors import Refusal
from addon.own_responses import make_json_response
from addon.process_config import ProcessConfig
from addon.spool_troubles import SpoolTroubles
from extensions.cluster.state import ClusterState
from runtime.authority import parse_host
from runtime.child_troubles import read_troubles
from runtime.heartbeat import Heartbeat
from runtime.settings import Settings, is_loopback
from runtime.worker_board import Shared

WEB_TIMEOUT_S = 2.0
NO_SLUGS = "this node has not got the endpoints from the server of the cluster yet"


class HealthChecks:
    """Responds to ``/livez`` and ``/healthz``."""

    def __init__(
        self,
        settings: Settings,
        config: ProcessConfig,
        troubles: SpoolTroubles,
        *,
        knows_slugs: Callable[[], bool],
    ) -> None:
        self._knows_slugs = knows_slugs
        self._is_local = settings.is_local
        self._has_pages = settings.has_pages
        self._report = HealthReport(
            settings.data_dir,
            config,
            troubles,
            has_web=settings.has_pages,
            is_in_cluster=settings.node.copy is not None,
        )

    def respond_live(self) -> http.Response:
        """Return the response to ``/livez``: 503 while a proxy would refuse every call."""
        if not self._knows_slugs():
            return make_json_response(
                503, orjson.dumps({"status": "failing", "reasons": [NO_SLUGS]})
            )
        return make_json_response(200, b'{"status":"ok"}')

    def respond(self, request: http.Request) -> Refusal | Awaitable[http.Response]:
        """Return the response to ``/healthz`` to be awaited, or a refusal at once."""
        # A body would wait, unbounded, for the report.
        if headers.announces_body(request.headers.fields):
            return errors.unexpected_body()
        return self._respond_with_report(request)

    @property
    def has_metrics(self) -> bool:
        """Return whether ``/metrics`` is responded to here: the pages have more of them."""
        return not self._has_pages

    def respond_with_metrics(self, request: http.Request) -> Refusal | Awaitable[http.Response]:
        """Return the response to ``/metrics`` to be awaited, or a refusal at once."""
        if headers.announces_body(request.headers.fields):
            return errors.unexpected_body()
        return self._respond_with_metrics()

    async def _respond_with_metrics(self) -> http.Response:
        document = await self._report.describe(with_lines=False)
        fields = ((b"content-type", node_metrics.CONTENT_TYPE), (b"cache-control", b"no-store"))
        return http.Response.make(200, node_metrics.render(document), http.Headers(fields))

    async def _respond_with_report(self, request: http.Request) -> http.Response:
        with_lines = self._is_local and is_loopback_name(request.host_header)
        return make_json_response(*await self._report.make(with_lines=with_lines))


class HealthReport:
    """Looks at the files of other processes, the board of workers, and ``/livez`` of the web process."""

    def __init__(
        self,
        data_dir: Path,
        config: ProcessConfig,
        troubles: SpoolTroubles,
        *,
        has_web: bool,
        is_in_cluster: bool,
    ) -> None:
        self._is_in_cluster = is_in_cluster
        self._data_dir = data_dir
        self._has_web = has_web
        self._web_port = config.web_port
        self._board = config.board
        self._troubles = troubles

    async def make(self, *, with_lines: bool) -> tuple[int, bytes]:
        """Return status and JSON body: 200 when all is well, 503 with the reasons else."""
        document = await self.describe(with_lines=with_lines)
        return (503 if document["reasons"] else 200), orjson.dumps(document)

    async def describe(self, *, with_lines: bool) -> dict[str, Any]:
        """Return what is to be said of the node.

        With ``with_lines`` it has also the last lines of processes that are down, which name paths."""
        heartbeat = Heartbeat.read(self._data_dir)
        troubles = read_troubles(self._data_dir)
        reasons = [str(trouble) for trouble in troubles]
        if heartbeat is None or not heartbeat.is_fresh:
            reasons.append("the recorder is not running; calls wait in the spool")
        if self._has_web and not await self._is_web_up():
            reasons.append("the web process does not respond")
        if heartbeat is not None and heartbeat.stuck_organizations:
            reasons.append("a trace database cannot be written; its calls wait in the spool")
        reasons += self._find_cluster_reasons(cluster := self._read_cluster())
        if self._troubles.current is not None:
            reasons.append(self._troubles.current)
        self._troubles.publish(self._board)
        if missing := self._board.count_missing():
            reasons.append(f"{missing} of the proxy's workers do not accept calls")
        reasons += [each for each in self._board.troubles_of_others() if each not in reasons]
        document: dict[str, Any] = {
            "status": "failing" if reasons else "ok",
            "reasons": reasons,
            "not_kept": {
                "calls": self._board.total(Shared.CALLS_NOT_KEPT),
                "responses": self._board.total(Shared.RESPONSES_NOT_KEPT),
                "request_bodies": self._board.total(Shared.REQUEST_BODIES_NOT_KEPT),
            },
        }
        if troubles and with_lines:
            document["last_lines"] = {each.name: each.last_lines for each in troubles}
        if heartbeat is not None:
            document["recorder"] = {
                "waiting": heartbeat.waiting,
                "stuck_organizations": heartbeat.stuck_organizations,
                "unreadable_files": heartbeat.unreadable,
            }
        if cluster is not None:
            document["cluster"] = {
                "failing": cluster.failing,
                "unshipped": cluster.unshipped,
                "in_flight": cluster.in_flight,
                "lag": cluster.lag,
            }
        return document

    def _read_cluster(self) -> ClusterState | None:
        return ClusterState.read(self._data_dir) if self._is_in_cluster else None

    def _find_cluster_reasons(self, state: ClusterState | None) -> list[str]:
        if state is None:
            return ["the cluster process is not running"] if self._is_in_cluster else []
        reasons = [f"the {each} of the cluster fails: see the server log" for each in state.failing]
        if state.unserved:
            noun = "organisation" if state.unserved == 1 else "organisations"
            reasons.append(f"no live node has the calls of {state.unserved} {noun}")
        return reasons

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


def is_loopback_name(host_header: str | None) -> bool:
    """Return whether a request names this machine by a loopback name. No page on the internet can
    make its visitor's browser do that."""
    host = parse_host(host_header or "")
    return host is not None and is_loopback(host)
