"""The contract with mitmproxy's reverse mode.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import socket

import pytest
from mitmproxy.addons import proxyserver
from mitmproxy.connection import Client
from mitmproxy.proxy import commands, context, events, mode_servers, mode_specs
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.test import taddons

from addon import mitmproxy_patches
from addon.core.dispatch_table import DispatchTable
from addon.core.reverse_mode import BoundSocket
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
    with socket.create_server(("127.0.0.1", 0)) as bound:
        mitmproxy_patches.listen_on(BoundSocket(bound, WorkerBoard.alone()))
        servers = await mode_servers.ReverseInstance(None, None).listen("ignored", 0)
        assert listening_on(servers) == [bound.getsockname()]
        servers[0].close()
