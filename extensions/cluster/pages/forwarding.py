"""Forwarding a request to another node, and streaming its response."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass

import httpx
from starlette.requests import Request
from starlette.types import Receive, Send

from dashboard.addresses import requested
from extensions.cluster.statements import HEADER
from runtime import response_headers

# A page has at most some seconds; streams have a line each five seconds.
TIMEOUT = httpx.Timeout(60.0, connect=0.3, pool=5.0)
CHECK_S = 5.0  # how often it is checked whether the caller may still read
MAX_CONNECTIONS = 256
_NOT_SENT = {
    *(b"authorization", b"connection", b"content-length", b"cookie", b"expect", b"host", b"te"),
    *(b"keep-alive", b"transfer-encoding", b"upgrade", b"x-forwarded-for", HEADER.encode()),
}
_NOT_RETURNED = {
    b"connection",
    b"date",
    b"keep-alive",
    b"server",
    b"set-cookie",
    b"transfer-encoding",
}

type Check = Callable[[], Awaitable[bool]]

logger = logging.getLogger(__name__)


class NodeAwayError(Exception):
    """A node does not respond with a page of its own. Nothing was sent to the client yet."""


class NodeSilentError(NodeAwayError):
    """A node accepts connections, but does not begin its response in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedRequest:
    """A request with its body. ``check`` returns whether the caller may still read the response."""

    request: Request
    body: bytes
    check: Check

    def build(self, address: str, statement: str) -> httpx.Request:
        """Return the request to a node, with a statement of the caller. Raises httpx.InvalidURL."""
        request = self.request
        headers = [each for each in request.headers.raw if each[0] not in _NOT_SENT]
        headers.append((HEADER.encode(), statement.encode()))
        if request.client is not None:
            headers.append((b"x-forwarded-for", request.client.host.encode()))
        target = requested(request.scope).encode("latin-1")
        return httpx.Request(
            request.method,
            httpx.URL(f"http://{address}").copy_with(raw_path=target),
            headers=[*headers, (b"host", address.encode())],
            content=self.body or None,
            extensions={"timeout": TIMEOUT.as_dict(), "target": target},  # not encoded once more
        )


class Forwarder:
    """The connections to other nodes."""

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Connect directly, ignoring HTTP proxies in the environment."""
        limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=16)
        self._client = httpx.AsyncClient(limits=limits, trust_env=False, transport=transport)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def forward(
        self,
        address: str,
        forwarded: ForwardedRequest,
        statement: str,
        send: Send,
        patience_s: float | None = None,
    ) -> None:
        """Send a request to a node with a statement of the caller, and the response to the client.

        The response is cut when the caller may no longer read it. Raises NodeAwayError, also if the
        response has not begun after ``patience_s`` seconds."""
        try:
            async with asyncio.timeout(patience_s):
                response = await self._client.send(forwarded.build(address, statement), stream=True)
        except TimeoutError as error:
            raise NodeSilentError(f"it has not responded for {patience_s} s") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise NodeAwayError(f"it does not respond: {error!r}") from error
        async with aclosing(response):
            refusal = response.headers.get(response_headers.ERROR)
            if refusal is not None:
                raise NodeAwayError(f"it refuses to respond: {refusal}")
            await _send(response, forwarded.check, send)


async def until_gone(receive: Receive, work: Awaitable[None]) -> None:
    """Do work for a client until it is done or the client has left. Raises what ``work`` raises."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.create_task(_wait_for_end(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_gone = not working.done()
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})
    with suppress(asyncio.CancelledError):
        if not is_gone:
            working.result()


async def _send(response: httpx.Response, check: Check, send: Send) -> None:
    headers = [each for each in response.headers.raw if each[0].lower() not in _NOT_RETURNED]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    try:
        async with aclosing(_read(response, check)) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except httpx.TransportError as error:
        # Without its last chunk nobody takes it for a whole one.
        logger.warning("a response of another node was cut: %s", error)
    else:
        await send({"type": "http.response.body", "body": b""})


async def _read(response: httpx.Response, check: Check) -> AsyncGenerator[bytes]:
    """Yield the body of a response. Raises httpx.TransportError if it breaks off."""
    checked_s = time.monotonic()
    async for chunk in response.aiter_raw():
        if time.monotonic() - checked_s >= CHECK_S:
            if not await check():
                raise httpx.ReadError("its caller may no longer read it")
            checked_s = time.monotonic()
        yield chunk


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
