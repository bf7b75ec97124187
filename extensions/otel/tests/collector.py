"""A collector made of OpenTelemetry's own protobuf types, on loopback."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Keeps every span that it acknowledges. ``on_request`` may refuse a request with a status, by
    returning it, or end it without a response, by raising ConnectionError."""

    def __init__(self) -> None:
        self.received: list[Span] = []
        self.acknowledged: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.on_request: Callable[[list[Span]], int] = lambda _spans: 200
        self.arrived = threading.Condition()
        self.url = ""

    def ids(self) -> list[str]:
        return [str(read_attributes(span)["taximeter.entry_id"]) for span in self.acknowledged]

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        with self.arrived:
            assert self.arrived.wait_for(is_done, 60), len(self.acknowledged)

    def take(self, body: bytes) -> int:
        request = ExportTraceServiceRequest.FromString(body)
        spans = [
            span
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self.arrived:
            self.resources += [
                {each.key: each.value.string_value for each in resource.resource.attributes}
                for resource in request.resource_spans
            ]
            self.received += spans
            status = self.on_request(spans)
            if status == 200:
                self.acknowledged += spans
            self.arrived.notify_all()
        return status

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve at ``url`` within the block."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.headers.append({k.lower(): v for k, v in self.headers.items()})
                try:
                    status = collector.take(body)
                    self.send_response(status)
                    self.send_header("content-type", "application/x-protobuf")
                    self.end_headers()
                    self.wfile.write(ExportTraceServiceResponse().SerializeToString())
                except ConnectionError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def read_attributes(span: Span) -> dict[str, Any]:
    return {each.key: _read(each.value) for each in span.attributes}


def _read(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_read(each) for each in value.array_value.values]
    return getattr(value, kind)
