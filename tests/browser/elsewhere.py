"""A web site of somebody else: an empty page, and the TypeScript SDK as a bundler would bring it.

It listens on loopback, where Chromium takes ``localhost`` and ``127.0.0.1`` for two sites.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests import ROOT

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
