"""The scripted upstream of the demo: a small server on loopback in place of the Messages API.

The proxy forwards bodies byte for byte, so a body identifies its call: the client tells what is to be
replied before it sends one. Whatever else comes gets a reply that says where it is.
"""

import asyncio
import hashlib
import json
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from extensions.demo.blocks import Failure, Message, Reply, reply, text
from extensions.demo.events import make_message, stream_events
from extensions.demo.prompt_cache import PromptCache, count_tokens
from extensions.demo.rate_limits import RateLimits

ELSEWHERE = reply(
    text(
        "This is the upstream of the demo. There is no model behind it, so every request of yours"
        " gets this text. `taximeter up` forwards to the real API."
    )
)
_FIRST_EVENT_S, _EVENT_S = 0.35, 0.03


class DemoUpstream:
    """The scripted upstream. ``pace`` multiplies the time that responses take; 0 is at once."""

    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._cache = PromptCache()
        self._limits = RateLimits()
        self._replies: dict[bytes, deque[Reply]] = {}
        self._numbers = count(1)

    def expect(self, body: bytes, replies: Sequence[Reply]) -> None:
        """Reply to requests with this body, one after the other."""
        self._replies[hashlib.sha256(body).digest()] = deque(replies)

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve from a thread of its own. Yields the base URL."""
        app = Starlette(
            routes=[
                Route("/v1/messages", self._create, methods=["POST"]),
                Route("/v1/messages/count_tokens", self._count_tokens, methods=["POST"]),
            ]
        )
        # A stream that is cut on purpose is an error to uvicorn, so it logs nothing.
        config = uvicorn.Config(app, log_config=None, log_level="critical", access_log=False)
        server = uvicorn.Server(config)
        with closing(socket.create_server(("127.0.0.1", 0))) as listener:
            thread = threading.Thread(target=server.run, args=([listener],), name="upstream")
            thread.start()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                thread.join()

    async def _create(self, request: Request) -> ASGIApp:
        body = await request.body()
        replies = self._replies.get(hashlib.sha256(body).digest())
        chosen = replies.popleft() if replies else ELSEWHERE
        number = next(self._numbers)
        status = chosen.status if isinstance(chosen, Failure) else 200
        limits = self._limits.count(request.headers, status)
        headers = {"request-id": f"req_demo{number:06}", **limits}
        try:
            document = json.loads(body)
        except ValueError:
            document = {}
        if isinstance(chosen, Failure):
            await self._sleep(_FIRST_EVENT_S)
            return JSONResponse(_make_error(chosen), status, headers)
        input_tokens = self._cache.count(document)
        message = make_message(document, chosen, input_tokens, f"msg_demo{number:06}")
        if document.get("stream"):
            return _Stream(self._pass_events(message, chosen), headers)
        await self._sleep(_FIRST_EVENT_S + _EVENT_S * message["usage"]["output_tokens"] / 10)
        return JSONResponse(message, headers=headers)

    async def _pass_events(self, message: dict[str, Any], chosen: Message) -> AsyncIterator[bytes]:
        """Yield the events of a stream, an empty one where it stands still."""
        events = list(stream_events(message))
        cut, held = _place(chosen.cut_after, events), _place(chosen.hold_after, events)
        await self._sleep(_FIRST_EVENT_S)
        for number, event in enumerate(events):
            if number == cut:
                raise ConnectionResetError
            if number == held:
                yield b""
            yield event
            await self._sleep(_EVENT_S)

    async def _count_tokens(self, request: Request) -> JSONResponse:
        return JSONResponse({"input_tokens": count_tokens(await request.body())})

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self._pace)


class _Stream:
    """A response of server-sent events. One whose source fails ends without its last chunk."""

    def __init__(self, events: AsyncIterator[bytes], headers: Mapping[str, str]) -> None:
        self._events = events
        fields = {"content-type": "text/event-stream; charset=utf-8", **headers}
        self._headers = [(name.encode(), value.encode()) for name, value in fields.items()]

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self._headers}
        try:
            async for event in self._events:
                if start:  # with the first event, which takes the model a while
                    await send(start)
                    start = {}
                if not event:
                    await receive()  # the request is read, so this waits for its end
                    return
                await send({"type": "http.response.body", "body": event, "more_body": True})
        except ConnectionResetError:
            return
        await send({"type": "http.response.body", "body": b""})


def _place(share: float | None, events: Sequence[bytes]) -> int | None:
    return None if share is None else int(len(events) * share)


def _make_error(failure: Failure) -> dict[str, Any]:
    return {
        "type": "error",
        "error": {"type": failure.error_type, "message": failure.message},
    }
