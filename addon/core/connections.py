"""Finding, closing, resetting and writing to connections of a running proxy, bypassing its layers."""

import asyncio
import socket
import struct

from mitmproxy import ctx, http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.connection import ConnectionState, Server
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler

from addon import own_responses
from addon.http1 import client_side
from runtime.http_proxies import HttpProxy


def set_destination(request: http.Request, scheme: str, host: str, port: int) -> None:
    """Set the destination of a request. Unlike the setters of its fields this leaves its headers
    unchanged."""
    request.data.scheme, request.data.host, request.data.port = scheme.encode(), host, port


def set_proxy(flow: http.HTTPFlow, proxy: HttpProxy) -> None:
    """Send a request to its destination through an HTTP proxy."""
    server = Server(address=(flow.request.data.host, flow.request.data.port))
    server.via = (proxy.scheme, (proxy.host, proxy.port))
    flow.server_conn = server


def get_proxyserver() -> Proxyserver:
    """Return mitmproxy's addon that owns the servers and their connections."""
    addon = ctx.master.addons.get("proxyserver")
    if not isinstance(addon, Proxyserver):
        raise TypeError("mitmproxy runs without its proxyserver addon")
    return addon


def find_handler(client_id: str) -> ProxyConnectionHandler | None:
    """Return the handler of a client connection and its upstream connections, None if it has ended."""
    return get_proxyserver().connections.get(client_id)


def close_upstream(handler: ProxyConnectionHandler) -> None:
    """Close all upstream connections of a client connection, whatever their state."""
    for connection in list(handler.transports):
        if connection is not handler.client:
            handler.close_connection(connection)


def close_client(handler: ProxyConnectionHandler, last: http.Response | None = None) -> None:
    """Close a client connection, after sending ``last`` unless it is None."""
    if handler.client in handler.transports:
        if last is not None:
            _write(handler, last)
        handler.close_connection(handler.client)


def respond_and_half_close(handler: ProxyConnectionHandler, response: http.Response) -> bool:
    """Send a response to a client that has got no response head yet, and close our side of its connection.

    What the client still sends is discarded. Return whether the response could be sent."""
    if not _write(handler, response):
        return False
    held = client_side.find_input(handler)
    if held is not None:
        held.refuse()
    handler.close_connection(handler.client, half_close=True)
    return True


def _write(handler: ProxyConnectionHandler, response: http.Response) -> bool:
    """Write a whole response to a client; return False if the client has left."""
    if (
        handler.client not in handler.transports
        or not handler.client.state & ConnectionState.CAN_WRITE
    ):
        return False
    writer = _find_writer(handler)
    if writer is not None and not writer.is_closing():
        writer.write(own_responses.assemble(response))
    return True


def _find_writer(handler: ProxyConnectionHandler) -> asyncio.StreamWriter | None:
    """Return the writer of a client connection, None if the client has left."""
    io = handler.transports.get(handler.client)
    return io.writer if io is not None and isinstance(io.writer, asyncio.StreamWriter) else None


def _find_behind(handler: ProxyConnectionHandler) -> list[asyncio.WriteTransport]:
    """Return the transports of upstream connections with data that is not sent yet."""
    return [
        io.writer.transport
        for connection, io in handler.transports.items()
        if connection is not handler.client
        and isinstance(io.writer, asyncio.StreamWriter)
        and io.writer.transport.get_write_buffer_size()
    ]


def is_client_behind(handler: ProxyConnectionHandler) -> bool:
    """Return whether data for a client is not sent yet."""
    writer = _find_writer(handler)
    return writer is not None and writer.transport.get_write_buffer_size() > 0


def abort_client(handler: ProxyConnectionHandler) -> None:
    """End a client connection at once, and discard data that is not sent yet."""
    if (writer := _find_writer(handler)) is not None:
        writer.transport.abort()


def is_upstream_behind(handler: ProxyConnectionHandler) -> bool:
    """Return whether data for an upstream is not sent yet."""
    return bool(_find_behind(handler))


def drop_unsent(handler: ProxyConnectionHandler) -> None:
    """Abort the upstream connections with data that is not sent yet.

    A regular close would keep that data until the upstream takes it."""
    for transport in _find_behind(handler):
        transport.abort()


def reset_client(handler: ProxyConnectionHandler) -> None:
    """Reset a client connection, so that the client cannot take a partial response for a whole one."""
    if (writer := _find_writer(handler)) is not None:
        client_socket = writer.get_extra_info("socket")
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    close_client(handler)
