"""A closed connection says nothing of the server: limits hold over a restart, a failover and CLIENT KILL."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from extensions.cluster import server
from extensions.cluster.limits import ClusterWindows
from extensions.cluster.tests.nodes_with_limits import NodesWithLimits
from extensions.cluster.tests.relays import Relay, Relays
from extensions.cluster.tests.servers import Process, Servers
from tests.redis_server import SERVER
from tests.upstream import kept_port, wait_until

pytestmark = pytest.mark.live  # servers on TCP that are ended

LIMIT, BEFORE, NODES = 300, 90, 3
WINDOW = "taximeter:limit:messages default"
DURABLE = ("appendonly yes", "appendfsync always", 'save ""', "repl-diskless-sync-delay 0")


@dataclass(frozen=True, slots=True)
class Site:
    """A server on TCP, and a relay that leads to it."""

    process: Process
    relay: Relay
    other: Process
    client: Any  # without a relay, and patient

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.relay.port}"


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if SERVER is None:
        pytest.skip("there is no redis-server; Debian's package of that name brings it")
    folder = tmp_path_factory.mktemp("tcp")
    with kept_port() as port, kept_port() as other_port, Relays() as relays:
        processes = [
            Process(SERVER, folder / name, number, DURABLE)
            for name, number in (("first", port), ("other", other_port))
        ]
        client = redis.Redis(port=port)
        yield Site(processes[0], relays.add(port), processes[1], client)
        client.close()
        for each in processes:
            each.kill()
            each.client.close()


def restart(site: Site) -> None:
    site.process.kill()
    site.process.start()


def kill_clients(site: Site) -> None:
    site.client.client_kill_filter(_type="normal", skipme=True)


def reset(site: Site) -> None:
    site.relay.cut()
    site.relay.mend()


def exchange_roles(site: Site) -> None:
    """Let another server take the place of this one, to which open connections lead still."""
    site.other.client.replicaof("127.0.0.1", site.process.port)
    wait_until(lambda: site.other.client.llen(WINDOW) == BEFORE, "the window at the replica")
    site.other.client.replicaof("NO", "ONE")
    site.client.replicaof("127.0.0.1", site.other.port)
    site.relay.redirect(site.other.port)


@pytest.mark.parametrize("change", [restart, kill_clients, reset, exchange_roles])
async def test_limits_hold_when_all_connections_are_closed(
    site: Site, change: Callable[[Site], None]
) -> None:
    async with NodesWithLimits([site.url] * NODES) as nodes:
        assert await nodes.admit(BEFORE) == BEFORE
        change(site)
        assert await nodes.admit(360 - BEFORE) == LIMIT - BEFORE
        assert nodes.alone == 0
        for _ in range(2):  # and no connection of before waits to be found dead
            change = kill_clients
            change(site)
            assert await nodes.admit(30) == 0
        assert nodes.alone == 0


async def test_limits_hold_over_a_failover(tmp_path_factory):
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        urls = [servers.link().url for _ in range(NODES)]
        async with NodesWithLimits(urls) as nodes:
            assert await nodes.admit(BEFORE) == BEFORE
            before, after = servers.primary, servers.replica
            wait_until(lambda: after.client.llen(WINDOW) == BEFORE, "the window at the replica")
            with servers.noticing_deaths():
                before.kill()
                servers.wait_for_failover(before)
            wait_until(
                lambda: servers.sentinel.client.sentinel_master("main")["flags"] == "master",
                "the end of the failover",
            )
            assert await nodes.admit(360 - BEFORE) == LIMIT - BEFORE
            assert nodes.alone == 0


async def test_what_was_asked_on_a_connection_that_is_closed_is_never_counted_too_seldom(site):
    """Count twice what the server counted and could not say: too few may pass, and never too many."""
    admitted = 0
    async with NodesWithLimits([site.url] * NODES) as nodes:
        for _ in range(4):
            asked = asyncio.create_task(nodes.admit(360 // 4))
            for _ in range(5):  # so that some have been sent
                await asyncio.sleep(0)
            kill_clients(site)
            admitted += await asked
        assert nodes.alone == 0
    assert admitted <= LIMIT == site.client.llen(WINDOW)
    assert admitted >= LIMIT // 2


async def test_a_request_is_asked_about_twice_at_most(site, monkeypatch):
    site.relay.cut()
    windows = ClusterWindows(site.url)
    tries = []
    ask = windows._admit.__call__

    async def count(*words, client):
        tries.append(client)
        return await ask(*words, client=client)

    monkeypatch.setattr(windows, "_admit", count)
    with pytest.raises(redis.ConnectionError):
        await windows.admit("messages default", 1)
    first, second = tries
    assert first is not second
    await windows.close()


async def test_both_tries_together_take_no_longer_than_one_call_may_wait(site, monkeypatch):
    async with NodesWithLimits([site.url]) as nodes:
        monkeypatch.setattr(server, "QUICK_S", 0.05)
        site.relay.stall()
        assert await nodes.admit(1) == 1, "by itself"
        assert nodes.alone == 1
        site.relay.mend()


async def test_idle_connections_are_probed_by_the_kernel(site):
    for connect in (server.connect, server.connect_async):
        options = connect(site.url).get_connection_kwargs()
        assert options["socket_keepalive"] is True
        assert options["socket_keepalive_options"][socket.TCP_KEEPIDLE] == 5
    client = server.connect(site.url)
    connection = client.connection_pool.get_connection()
    assert connection._sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    connection.disconnect()
    client.close()
