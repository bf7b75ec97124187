"""A web site of somebody else: an empty page, and the TypeScript SDK as a bundler would bring it; and a
service whose proxy its pages may call.

It listens on loopback, where Chromium takes ``localhost`` and ``127.0.0.1`` for two sites.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests import ROOT
from tests.live.service import Endpoint, Service
from tests.upstream import Upstream

MODULES = ROOT / "tests" / "live" / "node" / "node_modules"
_SDK = "@anthropic-ai/sdk"
# What the SDK's package.json says for browsers; webhooks, which need CommonJS, are left out.
_FOR_BROWSERS = "internal/node.mjs", "internal/node.browser.mjs"
_IMPORTS = {
    _SDK: f"/{_SDK}/index.mjs",
    "@opentelemetry/api": "/@opentelemetry/api/dist/index.mjs",
    "standardwebhooks": "data:text/javascript,export class Webhook {}",
}
_PAGE = f"""<!doctype html><title>Elsewhere</title><link rel="icon" href="data:,">
<script type="importmap">{json.dumps({"imports": _IMPORTS})}</script>
<p>Somebody else's page.</p>"""


def has_sdk() -> bool:
    return (MODULES / _SDK / "index.mjs").exists()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/":
            self._answer(200, "text/html; charset=utf-8", _PAGE.encode())
            return
        path = MODULES / self.path.lstrip("/").replace(*_FOR_BROWSERS)
        if path.suffix == ".mjs" and path.is_file():
            self._answer(200, "text/javascript", path.read_bytes())
        else:
            self._answer(404, "text/plain", b"")

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def run_elsewhere() -> Iterator[int]:
    """Its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Place:
    """A service that lists one origin of a foreign site, which has another."""

    endpoint: Endpoint
    listed: str
    other: str

    @property
    def service(self) -> Service:
        return self.endpoint.service

    def url(self, path: str = "/v1/messages") -> str:
        return f"http://{self.service.host}{self.endpoint.target(path)}"


@contextmanager
def run_place(folder: Path) -> Iterator[Place]:
    """Run a foreign site and a service that lists one of its origins."""
    with run_elsewhere() as port, Upstream() as upstream:
        listed, other = f"http://localhost:{port}", f"http://127.0.0.1:{port}"
        with Service(folder, upstream.url, ALLOWED_ORIGINS=f"https://x.test,{listed}") as service:
            yield Place(Endpoint(service, upstream, "default"), listed, other)
