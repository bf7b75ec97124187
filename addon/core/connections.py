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
    transport = handler.transports.get(handler.client)
    if transport is None or not handler.client.state & ConnectionState.CAN_WRITE:
        return False
    if isinstance(transport.writer, asyncio.StreamWriter) and not transport.writer.is_closing():
        transport.writer.write(own_responses.assemble(response))
    return True


def is_client_behind(handler: ProxyConnectionHandler) -> bool:
    """Return whether a client has not taken yet what was sent to it."""
    io = handler.transports.get(handler.client)
    writer = None if io is None else io.writer
    return isinstance(writer, asyncio.StreamWriter) and writer.transport.get_write_buffer_size() > 0


def abort_client(handler: ProxyConnectionHandler) -> None:
    """End a client connection at once, without what it has not taken yet."""
    io = handler.transports.get(handler.client)
    if io is not None and isinstance(io.writer, asyncio.StreamWriter):
        io.writer.transport.abort()


def is_upstream_behind(handler: ProxyConnectionHandler) -> bool:
    """Return whether an upstream has not taken yet what was sent to it."""
    return any(
        isinstance(io.writer, asyncio.StreamWriter) and io.writer.transport.get_write_buffer_size()
        for connection, io in handler.transports.items()
        if connection is not handler.client
    )


def drop_unsent(handler: ProxyConnectionHandler) -> None:
    """End the upstream connections that have not taken everything yet: closing them in order would
    keep what they have not taken until they have."""
    for connection, io in list(handler.transports.items()):
        if connection is not handler.client and isinstance(io.writer, asyncio.StreamWriter):
            transport = io.writer.transport
            if transport.get_write_buffer_size():
                transport.abort()


def reset_client(handler: ProxyConnectionHandler) -> None:
    """End a client connection so that nobody can take what it has got for the whole."""
    transport = handler.transports.get(handler.client)
    if transport is not None and isinstance(transport.writer, asyncio.StreamWriter):
        client_socket = transport.writer.get_extra_info("socket")
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    close_client(handler)
