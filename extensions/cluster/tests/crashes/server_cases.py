"""The cases whose faults are of Redis, its replica and Sentinel, and of the links to them."""

import random
import time
from collections.abc import Callable, Sequence

import psutil

from extensions.cluster.tests.crashes.running import Cluster
from extensions.cluster.tests.crashes.scene import Case
from extensions.cluster.tests.relays import Relay
from extensions.cluster.tests.servers import Process
from tests.live.service import Service
from tests.upstream import wait_until

SLOW_S = 0.05
ROOM_BYTES, BACKLOG_BYTES = 100_000, 65_536
TORN_BYTES = 200


# --- links ----------------------------------------------------------------------------------------


def _break_link(
    choose: Callable[[Cluster], Sequence[Service]], change: Callable[[Relay], None]
) -> Callable[[Cluster], None]:
    def do(cluster: Cluster) -> None:
        links = [cluster.site.links[node] for node in choose(cluster)]
        for link in links:
            link.do(change)
        try:
            cluster.last()
        finally:
            for link in links:
                link.do(Relay.mend)

    return do


def _one_proxy(cluster: Cluster) -> Sequence[Service]:
    return [cluster.choose_proxy()]


def _one_recorder(cluster: Cluster) -> Sequence[Service]:
    return [cluster.choose_recorder()]


def _slow(relay: Relay) -> None:
    relay.slow(SLOW_S)


# --- servers --------------------------------------------------------------------------------------


def _kill_primary(cluster: Cluster) -> None:
    servers = cluster.servers
    primary = servers.primary
    primary.kill()
    servers.wait_for_failover(primary)
    cluster.last()
    primary.start()
    servers.wait_whole()


def _kill_replica(cluster: Cluster) -> None:
    _kill(cluster, cluster.servers.replica)


def _kill_sentinel(cluster: Cluster) -> None:
    _kill(cluster, cluster.servers.sentinel)


def _kill(cluster: Cluster, server: Process) -> None:
    """Kill a server that nothing fails over from, and start it again after a while."""
    server.kill()
    cluster.last()
    server.start()
    cluster.servers.wait_whole()


def _fail_over(cluster: Cluster) -> None:
    """Let Sentinel make the replica the primary, as before maintenance."""
    servers = cluster.servers
    before = servers.primary
    servers.sentinel.client.sentinel_failover("main")
    servers.wait_for_failover(before)
    servers.wait_whole()


def _stop_primary(cluster: Cluster) -> None:
    """Let the primary stand still until another one is in its place, and then go on."""
    servers = cluster.servers
    primary = servers.primary
    primary.suspend()
    try:
        servers.wait_for_failover(primary)
        cluster.last()
    finally:
        primary.resume()
    servers.wait_whole()


def _cut_off_primary(cluster: Cluster) -> None:
    """Cut the primary off from its replica and Sentinel, while the nodes still reach it."""
    servers = cluster.servers
    primary = servers.primary
    relay = servers.find_relay(primary)
    primary.client.config_set("min-replicas-max-lag", 3)
    primary.client.config_set("min-replicas-to-write", 1)
    relay.cut()
    try:
        servers.wait_for_failover(primary)
        cluster.last()
    finally:
        relay.mend()
    servers.wait_whole()
    primary.client.config_set("min-replicas-to-write", 0)


def _lose_power(cluster: Cluster) -> None:
    """Kill all servers, and cut what they wrote in their last second."""
    servers, dice = cluster.servers, random.Random(cluster.load.begun)  # noqa: S311
    logs = [server.find_log() for server in servers.both]
    ends = [path.stat().st_size for path in logs]
    begun_s = time.monotonic()
    wait_until(lambda: time.monotonic() > begun_s + 1, "a second of calls")
    for server in (*servers.both, servers.sentinel):
        server.kill()
    for path, end in zip(logs, ends, strict=True):
        with path.open("r+b") as file:
            file.truncate(min(path.stat().st_size, end + dice.randrange(TORN_BYTES)))
    cluster.load.wait_for(5)
    for server in (*servers.both, servers.sentinel):
        server.start()
    servers.wait_whole()


def _fill(cluster: Cluster) -> None:
    """Let streams grow until Redis has no memory left, since one copy reads nothing, and then read."""
    primary = cluster.servers.primary
    # It counts as used, and would grow to 1 MB during the case.
    primary.client.config_set("repl-backlog-size", BACKLOG_BYTES)
    cluster.last()
    copy = psutil.Process(cluster.recorders[1].pids()["cluster"])
    copy.suspend()
    try:
        used = primary.client.info("memory")["used_memory"]
        primary.client.config_set("maxmemory", used + ROOM_BYTES)
        for node in cluster.proxies:
            cluster.wait_for_failure(node)
        cluster.last()
    finally:
        copy.resume()
    # The copy that reads again makes room, without anybody's help.
    for node in cluster.nodes:
        node.wait_healthy()
    primary.client.config_set("maxmemory", 0)


SERVER_CASES: Sequence[Case[Cluster]] = (
    Case("link of a recorder cut", _break_link(_one_recorder, Relay.cut)),
    Case("link of a recorder stalled", _break_link(_one_recorder, Relay.stall)),
    Case("link of a recorder slow", _break_link(_one_recorder, _slow)),
    Case("kill -9 of the replica", _kill_replica),
    Case("kill -9 of Sentinel", _kill_sentinel),
    Case("link of a proxy slow", _break_link(_one_proxy, _slow)),
    Case("link of a proxy cut", _break_link(_one_proxy, Relay.cut), is_away=True),
    Case("link of a proxy stalled", _break_link(_one_proxy, Relay.stall), is_away=True),
    Case("links of all cut", _break_link(lambda cluster: cluster.nodes, Relay.cut), is_away=True),
    Case("fail over on command", _fail_over, is_away=True),
    Case("kill -9 of the primary", _kill_primary, is_away=True),
    Case("the primary stands still", _stop_primary, is_away=True),
    Case("the primary cut off", _cut_off_primary, is_away=True),
    Case("Redis full", _fill, is_away=True),
    Case("loss of power of Redis", _lose_power, is_away=True),
)
