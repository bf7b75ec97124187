"""Streams of events for tests: the application in the loop of the test, and the spool of a proxy."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from runtime import clock
from store.spool.format import RequestHead, ResponseHead
from store.spool.writer import SpoolRun


class Event(NamedTuple):
    name: str
    data: Any
    id: str | None


class EventStream:
    """A client of one stream. ``status`` and ``headers`` are there when it is open."""

    def __init__(self, app, path: str, headers: dict[str, str]) -> None:
        path, _, query = path.partition("?")
        fields = {"host": "meter.example:8080"} | headers
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
            "client": ("127.0.0.1", 1),
            "server": ("meter.example", 8080),
        }
        self._app = app
        self._left = asyncio.Event()
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.task = asyncio.create_task(self._app(self._scope, self._receive, self._send))
        self.is_complete = False

    async def open(self) -> "EventStream":
        message = await asyncio.wait_for(self._messages.get(), 60)
        self.status = message["status"]
        self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        return self

    async def next(self) -> Event | None:
        """Return the next event, None at the end. Heartbeats are passed over."""
        while True:
            message = await asyncio.wait_for(self._messages.get(), 60)
            if not message.get("more_body"):
                self.is_complete = True
                return None
            lines = dict(
                line.split(": ", 1) for line in message["body"].decode().strip().split("\n")
            )
            if "event" in lines:
                return Event(lines["event"], json.loads(lines["data"]), lines.get("id"))

    async def find(self, name: str) -> Event:
        """Return the next event of this name."""
        while (event := await self.next()) is None or event.name != name:
            assert event is not None, f"the stream ended before {name}"
        return event

    async def close(self) -> None:
        self._left.set()
        await asyncio.wait_for(self.task, 60)

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message) -> None:
        await self._messages.put(message)


@asynccontextmanager
async def following(app, path: str, headers: dict[str, str]):
    stream = EventStream(app, path, headers)
    try:
        yield await stream.open()
    finally:
        await stream.close()


class Proxy:
    """A proxy as far as the spool knows: calls that begin, go on and end."""

    def __init__(self, root) -> None:
        self.run = SpoolRun(root)

    def begin(self, organization_id, body=b"", **head):
        fields: dict[str, Any] = {
            "entry_id": clock.new_id(),
            "created_at": clock.format_ms(clock.now()),
            "proxy_endpoint_id": "pe_1",
            "slug": "default",
            "metadata_only": False,
            "request_bytes": len(body),
            "request_body": "whole",
        }
        made = RequestHead(**fields | {"organization_id": organization_id} | head)
        return made.entry_id, self.run.create(made, body)

    def respond(self, file, *chunks, **head):
        file.write_response_head(ResponseHead(**({"status_code": 200} | head)), 1.0)
        for chunk in chunks:
            file.write_chunk(chunk, 2.0)

    def close(self):
        self.run.close()


def sse(*events):
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )
