"""The operator sees the nodes of a cluster, and gives one up that is gone."""

from functools import partial

import pytest

from extensions.cluster import administration, copies, erasure_copies
from extensions.cluster.buckets import BUCKETS
from extensions.cluster.copies import Copy
from extensions.cluster.erasure_copies import ErasureCopy
from extensions.cluster.keys import COPIES, ERASURES_OF_NODES, NODES
from extensions.cluster.records import Report
from runtime.errors import ConflictError, ControlError, NotFoundError
from store.control import erasures
from store.control.database import ControlDatabase
from store.control.management import Management
from store.traces.maintenance.criteria import Criteria


@pytest.fixture
def url(redis_server, client):
    """Let a node keep a copy, another be gone, and a proxy node ship."""
    client.xgroup_create(COPIES, "main", mkstream=True)
    for name in ("b", "a"):
        Copy(client, "main", name, find_address=partial(str, f"{name}:1")).hold()
    client.xgroup_delconsumer(COPIES, "main", "b")
    client.hset(ERASURES_OF_NODES, "p", Report(clear=[]).pack())
    client.hset(ERASURES_OF_NODES, "a", Report().pack())
    return redis_server.url


def test_all_nodes_are_listed_with_what_they_keep(url):
    found = administration.list_nodes(url)
    assert [(each.id, each.copy, each.address, each.buckets, each.is_alive) for each in found] == [
        ("a", "main", "a:1", 0, True),
        ("b", "main", "b:1", BUCKETS, False),
        ("p", None, None, 0, None),
    ]


def test_a_node_that_is_forgotten_is_waited_for_no_longer(url, client, tmp_path, monkeypatch):
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
        management = Management(control, tmp_path)
        order = management.removal.order_erasure(management.local_caller(), Criteria(session="s"))
        with control.transaction() as db:
            for node, copy in (("a", "main"), ("b", "main"), ("p", "")):
                state = ErasureCopy(erasure_id=order.id, node=node, copy=copy)
                erasure_copies.write(db, state)
        for node in "bp":
            administration.forget(url, control, node)
        with control.reading() as db:
            assert [each.node for each in erasure_copies.list_of(db, order.id)] == ["a"]
            assert len(erasures.list_open(db)) == 1
        with pytest.raises(ConflictError, match="stop it"):
            administration.forget(url, control, "a")
        with pytest.raises(NotFoundError, match="cluster nodes"):
            administration.forget(url, control, "b")
    assert list(client.hgetall(NODES)) == [b"a"]
    assert list(client.hgetall(ERASURES_OF_NODES)) == [b"a"]
    left = Copy(client, "main", "a")
    monkeypatch.setattr(copies, "RENEW_S", -1.0)
    for _ in range(2):
        left.hold()
    assert len(left.buckets) == BUCKETS


def test_a_server_that_does_not_respond_is_named(redis_server):
    redis_server.kill()
    with pytest.raises(ControlError, match="server of the cluster"):
        administration.list_nodes(redis_server.url)
