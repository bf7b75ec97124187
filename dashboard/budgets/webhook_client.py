"""Sending webhook messages to addresses that owners of organisations chose.

A host name is resolved here, and the connection is made to the address that was checked, so that the
name cannot resolve to another address in between. TLS still verifies the name. Redirects are not
followed, proxies of the environment are not used, and of a response only the head is read, up to
``HEAD_BYTES``.
"""

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

import h11

from dashboard.budgets.webhook_messages import WebhookMessage
from runtime.webhook_rule import WebhookRule, explain_refusal

TIMEOUT_S = 15.0
HEAD_BYTES = 16 * 1024  # of the response, and of all interim ones before it
_GONE = 410
# A lookup cannot be cancelled, and who names a host may have its name server keep silent, for longer than a
# message may take. In the threads of the event loop, sign-in and mail would wait for it, and in a few threads
# the webhooks of others. A thread takes 8 MB of address space, and is made when no other one is free.
_LOOKUPS = ThreadPoolExecutor(32, thread_name_prefix="webhook-names")


class WebhookError(Exception):
    """Raised if a message was not accepted. Its text is the reason and may be displayed. ``is_final``: the
    message must not be sent again."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Resolver(Protocol):
    async def __call__(self, host: str, port: int, /) -> Iterable[str]:
        """Return the IP addresses of a host as texts. Raises OSError."""
        ...


async def resolve(host: str, port: int) -> Iterable[str]:
    """Return the IP addresses that the system's resolver finds for a host. Raises OSError."""
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_LOOKUPS, look_up)
    return [str(address[0]) for *_, address in found]


class WebhookClient:
    """Sends messages to addresses that ``rule`` allows. ``trust`` replaces the system's certificate
    authorities."""

    def __init__(
        self,
        rule: WebhookRule,
        resolver: Resolver = resolve,
        trust: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._rule = rule
        self._resolve = resolver
        self._trust = trust
        self._timeout_s = timeout_s

    async def post(self, url: str, message: WebhookMessage) -> None:
        """Send a message. Raises WebhookError unless it was accepted with a status of 200 to 299."""
        try:
            self._rule.check(url)
        except ValueError as error:
            raise WebhookError(str(error)) from error
        try:
            async with asyncio.timeout(self._timeout_s):
                status = await self._send(urlsplit(url), message)
        except TimeoutError:
            raise WebhookError("it did not respond in time") from None
        except ssl.SSLError as error:
            raise WebhookError(f"TLS failed: {error.reason or error}") from error
        except OSError as error:
            raise WebhookError(f"it cannot be reached: {_explain(error)}") from error
        except h11.ProtocolError as error:
            raise WebhookError("its response is not valid HTTP") from error
        if not 200 <= status < 300:
            raise WebhookError(f"it responded with {status}", is_final=status == _GONE)

    async def _send(self, url: SplitResult, message: WebhookMessage) -> int:
        """Send a message and return the status of the response. Raises OSError, h11.ProtocolError,
        WebhookError."""
        is_tls = url.scheme == "https"
        host = url.hostname or ""
        port = url.port or (443 if is_tls else 80)
        reader, writer = await self._connect(host, port, is_tls=is_tls)
        try:
            connection = h11.Connection(h11.CLIENT)
            for event in _make_events(url, message):
                writer.write(connection.send(event) or b"")
            await writer.drain()
            return await _read_status(connection, reader)
        finally:
            writer.transport.abort()  # what follows the status is not read

    async def _connect(
        self, host: str, port: int, *, is_tls: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first allowed address of a host that accepts the connection. Raises OSError,
        WebhookError."""
        found = await self._resolve(host, port)
        known = [ipaddress.ip_address(each) for each in found]
        # Without TLS nothing leaves this machine, whatever its names resolve to.
        allowed = [
            str(each) for each in known if self._rule.allows(each) and (is_tls or each.is_loopback)
        ]
        if not allowed:
            raise WebhookError(explain_refusal(host))
        tls = (self._trust or _make_tls()) if is_tls else None
        name = host if is_tls else None
        for address in allowed[:-1]:
            try:
                return await asyncio.open_connection(address, port, ssl=tls, server_hostname=name)
            except OSError:
                continue  # the next one may respond; the error of the last one is raised
        return await asyncio.open_connection(allowed[-1], port, ssl=tls, server_hostname=name)


def _explain(error: OSError) -> str:
    """Return the text of an error from the operating system; asyncio's own text would repeat the address."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


@cache  # reading the certificates of the authorities takes tens of milliseconds
def _make_tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _make_events(url: SplitResult, message: WebhookMessage) -> list[h11.Event]:
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    headers = [
        ("host", url.netloc),
        ("user-agent", "taximeter"),
        ("accept", "*/*"),
        ("content-type", "application/json"),
        ("content-length", str(len(message.body))),
        ("connection", "close"),
        *message.headers.items(),
    ]
    request = h11.Request(method="POST", target=target, headers=headers)
    return [request, h11.Data(data=message.body), h11.EndOfMessage()]


async def _read_status(connection: h11.Connection, reader: asyncio.StreamReader) -> int:
    """Return the status of the response, of which only the head is read. Raises OSError,
    h11.ProtocolError."""
    left = HEAD_BYTES
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if not left:
                raise h11.RemoteProtocolError("the head is too long")
            data = await reader.read(left)
            left -= len(data)
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            return event.status_code
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("no response")
