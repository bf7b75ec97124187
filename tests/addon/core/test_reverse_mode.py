"""The contract with mitmproxy's reverse mode.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import socket

import pytest
from mitmproxy.proxy import mode_servers, mode_specs

from addon import mitmproxy_patches
from addon.connection_limit import ConnectionLimit
from addon.core.reverse_mode import BoundSocket
from runtime.worker_board import WorkerBoard


def listening_on(servers):
    return [bound.getsockname() for server in servers for bound in server.sockets]


@pytest.mark.usefixtures("unpatched")
async def test_mitmproxy_still_binds_a_socket_of_its_own():
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
