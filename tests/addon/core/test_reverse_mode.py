"""The contract with mitmproxy's reverse mode.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import socket

import pytest
from mitmproxy import options
from mitmproxy.addons import proxyserver
from mitmproxy.connection import Client
from mitmproxy.proxy import commands, context, events, layer, mode_servers, mode_specs
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.proxy.layers.http._hooks import HttpResponseHook
from mitmproxy.test import taddons, tflow

from addon import mitmproxy_patches
from addon.connection_limit import ConnectionLimit
from addon.core.dispatch_table import DispatchTable
from addon.core.reverse_mode import LARGEST_JOINED_BYTES, BoundSocket, InlineHooks
from runtime.worker_board import WorkerBoard


@pytest.fixture
def top_layer(unpatched):
    """Makes the top layer of a client connection, which begins by asking for the next one."""

    def make():
        client = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0)
        client.proxy_mode = mode_specs.ProxyMode.parse("reverse:http://127.0.0.1:3")
        with taddons.context(proxyserver.Proxyserver()) as tctx:
            tctx.configure(tctx.master.addons.get("proxyserver"), connection_strategy="lazy")
            here = context.Context(client, tctx.options)
            instance = mode_servers.ReverseInstance(client.proxy_mode, None)
            return instance.make_top_layer(here)

    return make


def start(layer):
    """Start a layer and feed it a request; return the names of the hooks that are left to its handler."""
    seen = [*layer.handle_event(events.Start())]
    received = events.DataReceived(layer.context.client, b"GET / HTTP/1.1\r\n\r\n")
    seen += layer.handle_event(received)
    return [each.name for each in seen if isinstance(each, commands.StartHook)]


def test_the_core_still_hands_every_hook_to_its_handler(top_layer):
    assert start(top_layer()) == ["next_layer"]


class Chooser:
    def next_layer(self, data):
        data.layer = HttpLayer(data.context, HTTPMode.transparent)

    def requestheaders(self, flow):
        self.flow = flow


def test_hooks_run_inline(top_layer):
    with taddons.context() as tctx:
        table = DispatchTable(tctx.master)
        chooser = Chooser()
        table.add(chooser)
        mitmproxy_patches.run_hooks_inline(table)
        assert start(top_layer()) == []
        assert chooser.flow.request.path == "/"


def listening_on(servers):
    return [bound.getsockname() for server in servers for bound in server.sockets]


@pytest.mark.usefixtures("unpatched")
async def test_the_core_still_binds_a_socket_of_its_own():
    mode = mode_specs.ReverseMode.parse("reverse:http://127.0.0.1:3")
    instance = mode_servers.ReverseInstance(mode, None)
    servers = await instance.listen("127.0.0.1", 0)
    assert len(listening_on(servers)) == 1
    for server in servers:
        server.close()


@pytest.mark.usefixtures("unpatched")
async def test_the_reverse_proxy_can_be_made_to_serve_a_bound_socket():
    board = WorkerBoard.alone()
    with socket.create_server(("127.0.0.1", 0)) as bound:
        mitmproxy_patches.listen_on(BoundSocket(bound, board, ConnectionLimit(1, (), board)))
        servers = await mode_servers.ReverseInstance(None, None).listen("ignored", 0)
        assert listening_on(servers) == [bound.getsockname()]
        servers[0].close()


class Sender(layer.Layer):
    """Stands in for the layers below: hands out what a test gives it, event by event."""

    def __init__(self, *turns):
        super().__init__(context.Context(tflow.tclient_conn(), options.Options()))
        self.turns = iter(turns)

    def handle_event(self, event):
        yield from next(self.turns)

    _handle_event = handle_event


@pytest.fixture
def handle():
    """Returns the commands that are left of those of a layer, as bytes where something is sent. A hook is
    in the list when its handler is called."""
    log: list[object] = []

    class Notes:
        def response(self, _flow):
            log.append("response")

    def handle_one(*turns):
        with taddons.context() as tctx:
            table = DispatchTable(tctx.master)
            table.add(Notes())
            for command in InlineHooks(Sender(*turns), table).handle_event(events.Start()):
                log.append(
                    command.data if isinstance(command, commands.SendData) else type(command)
                )
        return log

    return handle_one


@pytest.fixture
def client():
    return Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0)


def test_a_head_and_its_body_are_sent_in_one_write(handle, client):
    head, body = commands.SendData(client, b"head"), commands.SendData(client, b"body")
    line, close = commands.Log("between them"), commands.CloseConnection(client)
    end = commands.SendData(client, b"end")
    handled = handle([head, line, body, close, end])
    assert handled == [commands.Log, b"headbody", commands.CloseConnection, b"end"]


def test_what_goes_to_different_connections_stays_apart_and_in_order(handle, client):
    other = client.copy()
    sent = [
        commands.SendData(to, data) for to, data in ((client, b"1"), (other, b"2"), (client, b"3"))
    ]
    assert handle(sent) == [b"1", b"2", b"3"]


def test_what_came_before_a_hook_is_sent_before_it(handle, client):
    hook = HttpResponseHook(tflow.tflow())
    sent = [commands.SendData(client, data) for data in (b"1", b"2", b"3")]
    assert handle([*sent[:2], hook, sent[2]]) == [b"12", "response", b"3"]


def test_much_data_is_not_copied_to_be_sent_in_one_write(handle, client):
    sent = [commands.SendData(client, bytes(LARGEST_JOINED_BYTES)), commands.SendData(client, b"x")]
    assert handle(sent) == [bytes(LARGEST_JOINED_BYTES), b"x"]
