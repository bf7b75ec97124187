"""A replica takes the place of a primary that dies, chosen by Redis Sentinel, and no call is lost."""

import time
from collections.abc import Iterator

import pytest
import redis

from extensions.cluster import server
from extensions.cluster.shipper import Shipper
from extensions.cluster.tests.servers import Servers
from extensions.cluster.tests.spools import make_receiver, names, spool
from tests.upstream import wait_until

pytestmark = pytest.mark.live  # three servers


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


def test_the_log_goes_on_at_the_replica_when_the_primary_dies(servers, run, root, tmp_path):
    url = servers.link().url
    shipping, receiving = server.connect(url), server.connect(url)
    shipper = Shipper(root, shipping, time.monotonic)
    receiver = make_receiver(tmp_path / "main", receiving)
    spool(run, "0001")
    shipper.run_round()
    receiver.run_round()
    before = servers.primary
    spool(run, "0002")

    def has_both() -> bool:
        for work in (shipper.run_round, receiver.run_round):
            try:
                work()
            except redis.RedisError:
                shipper.disconnect()
        return names(tmp_path / "main") == ["0001~org-1.done", "0002~org-1.done"]

    with servers.noticing_deaths():
        before.kill()
        wait_until(has_both, "both calls, by way of the replica")
    assert servers.primary is not before
    server.close(shipping)
    server.close(receiving)
