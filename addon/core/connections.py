"""Finding, closing, resetting and writing to connections of a running proxy, past mitmproxy."""

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
    """Set where a request goes. Unlike the setters of its fields this leaves its headers alone."""
    request.data.scheme, request.data.host, request.data.port = scheme.encode(), host, port


def set_proxy(flow: http.HTTPFlow, proxy: HttpProxy) -> None:
    """Reach the destination of a request through an HTTP proxy."""
    server = Server(address=(flow.request.data.host, flow.request.data.port))
    server.via = (proxy.scheme, (proxy.host, proxy.port))
    flow.server_conn = server


def get_proxyserver() -> Proxyserver:
    """Return mitmproxy's addon that has the servers and their connections."""
    addon = ctx.master.addons.get("proxyserver")
    if not isinstance(addon, Proxyserver):
        raise TypeError("mitmproxy runs without its proxyserver addon")
    return addon


def find_handler(client_id: str) -> ProxyConnectionHandler | None:
    """Return the handler of a client connection and its upstream connections, None when it has ended."""
    return get_proxyserver().connections.get(client_id)


def close_upstream(handler: ProxyConnectionHandler) -> None:
    """Close every upstream connection of a client connection, whatever state it is in."""
    for connection in list(handler.transports):
        if connection is not handler.client:
            handler.close_connection(connection)


def close_client(handler: ProxyConnectionHandler, last: http.Response | None = None) -> None:
    """Close a client connection, after a last response if there is one."""
    if handler.client in handler.transports:
        if last is not None:
            _write(handler, last)
        handler.close_connection(handler.client)


def respond_and_half_close(handler: ProxyConnectionHandler, response: http.Response) -> bool:
    """Respond to a client that has had no response head yet, and close our side of its connection.
    What it still sends is thrown away. Return whether that was possible."""
    if not _write(handler, response):
        return False
    held = client_side.find_input(handler)
    if held is not None:
        held.refuse()
    handler.close_connection(handler.client, half_close=True)
    return True


def _write(handler: ProxyConnectionHandler, response: http.Response) -> bool:
    """Write a whole response to a client that is still there; return whether it is."""
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
    """Return what writes to a client, None where it has gone."""
    io = handler.transports.get(handler.client)
    return io.writer if io is not None and isinstance(io.writer, asyncio.StreamWriter) else None


def _find_behind(handler: ProxyConnectionHandler) -> list[asyncio.WriteTransport]:
    """Return the upstream connections that have not taken yet what was sent to them."""
    return [
        io.writer.transport
        for connection, io in handler.transports.items()
        if connection is not handler.client
        and isinstance(io.writer, asyncio.StreamWriter)
        and io.writer.transport.get_write_buffer_size()
    ]


def is_client_behind(handler: ProxyConnectionHandler) -> bool:
    """Return whether a client has not taken yet what was sent to it."""
    writer = _find_writer(handler)
    return writer is not None and writer.transport.get_write_buffer_size() > 0


def abort_client(handler: ProxyConnectionHandler) -> None:
    """End a client connection at once, without what it has not taken yet."""
    if (writer := _find_writer(handler)) is not None:
        writer.transport.abort()


def is_upstream_behind(handler: ProxyConnectionHandler) -> bool:
    """Return whether an upstream has not taken yet what was sent to it."""
    return bool(_find_behind(handler))


def drop_unsent(handler: ProxyConnectionHandler) -> None:
    """End the upstream connections that have not taken everything yet: closing them in order would
    keep what they have not taken until they have."""
    for transport in _find_behind(handler):
        transport.abort()


def reset_client(handler: ProxyConnectionHandler) -> None:
    """End a client connection so that nobody can take what it has got for the whole."""
    if (writer := _find_writer(handler)) is not None:
        client_socket = writer.get_extra_info("socket")
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    close_client(handler)
