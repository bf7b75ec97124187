"""The scripted upstream of the demo: a small server on loopback in place of the Messages API.

The proxy forwards bodies byte for byte, so a body identifies its call: the client registers the reply
before it sends a body. Any other request gets a reply that says what this server is."""

import asyncio
import hashlib
import json
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from extensions.demo.calls import Call, Reply
from extensions.demo.events import make_message, stream_events
from extensions.demo.library import text
from extensions.demo.prompt_cache import PromptCache, count_tokens
from extensions.demo.rate_limits import RateLimits
from runtime import clock

ELSEWHERE = Reply(
    content=[
        text(
            "This is the upstream of the demo. There is no model behind it, so every request of yours"
            " gets this text. `taximeter up` forwards to the real API."
        )
    ]
)
_FIRST_EVENT_S, _EVENT_S = 0.35, 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response of the Messages API. ``chunks`` are the events of a stream, or one document."""

    status: int
    headers: Mapping[str, str]
    chunks: Sequence[bytes]


class MessagesApi:
    """Makes the responses to requests, with a prompt cache and rate limits."""

    def __init__(self) -> None:
        self._cache = PromptCache()
        self._limits = RateLimits()
        self._numbers = count(1)

    def respond(
        self, headers: Mapping[str, str], body: Mapping[str, Any], reply: Reply, at: datetime
    ) -> Response:
        """Return the response to a request sent at ``at``."""
        number = next(self._numbers)
        fields = {
            "content-type": "application/json",
            "request-id": f"req_demo{at:%y%m%d}{number:06}",
            **self._limits.count(headers, reply.status, at),
        }
        if reply.error_type is not None:
            error = {"type": reply.error_type, "message": reply.message}
            chunks = [json.dumps({"type": "error", "error": error}).encode()]
            return Response(status=reply.status, headers=fields, chunks=chunks)
        message = make_message(body, reply, self._cache.count(body, at), f"msg_demo{number:06}")
        chunks = [json.dumps(message, ensure_ascii=False).encode()]
        if body.get("stream"):
            fields["content-type"] = "text/event-stream; charset=utf-8"
            chunks = list(stream_events(message))
        return Response(status=reply.status, headers=fields, chunks=chunks)


class DemoUpstream:
    """The server. ``pace`` multiplies the duration of responses; with 0 they come at once."""

    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._api = MessagesApi()
        self._replies: dict[bytes, deque[Reply]] = {}

    def expect(self, call: Call) -> None:
        """Register a call: its requests get its replies, one after the other."""
        self._replies[hashlib.sha256(call.content).digest()] = deque(call.replies)

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve from a thread during the block. Yields the base URL."""
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

    async def _create(self, request: Request) -> StreamingResponse:
        content = await request.body()
        replies = self._replies.get(hashlib.sha256(content).digest())
        reply = replies.popleft() if replies else ELSEWHERE
        try:
            body = json.loads(content)
        except ValueError:
            body = None
        document = body if isinstance(body, dict) else {}
        response = self._api.respond(request.headers, document, reply, clock.now())
        await self._sleep(_FIRST_EVENT_S)  # which the model takes before it says anything
        chunks = self._pass_chunks(response.chunks, reply)
        return StreamingResponse(chunks, response.status, response.headers)

    async def _pass_chunks(self, chunks: Sequence[bytes], reply: Reply) -> AsyncIterator[bytes]:
        for number, chunk in enumerate(chunks):
            if number == place(reply.cut_after, chunks):
                raise ConnectionResetError  # so that the response ends without its last chunk
            if number == place(reply.hold_after, chunks):
                await asyncio.Event().wait()  # until the client leaves
            yield chunk
            await self._sleep(_EVENT_S)

    async def _count_tokens(self, request: Request) -> JSONResponse:
        return JSONResponse({"input_tokens": count_tokens(await request.body())})

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self._pace)


def place(share: float | None, chunks: Sequence[bytes]) -> int | None:
    """Return the index of the chunk at this share of all chunks, None without a share."""
    return None if share is None else int(len(chunks) * share)
