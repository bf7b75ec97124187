"""Another server, or another history of the same one, is noticed before anything is forgotten."""

import pytest

from extensions.cluster.server import ASK_S, connect
from extensions.cluster.shipper import REMEMBERED_S, Shipper
from extensions.cluster.tests.spools import names, spool


@pytest.fixture
def shipper(run, root, client, clock):
    """Return a shipper that has shipped one call."""
    shipper = Shipper(root, client, clock)
    spool(run, "0001")
    shipper.run_round()
    return shipper


def test_what_was_shipped_to_a_server_that_was_replaced_a_moment_ago_is_not_removed(
    shipper, root, redis_server, clock
):
    clock.now_s += REMEMBERED_S - ASK_S / 2
    shipper.run_round()
    redis_server.kill()
    redis_server.start()  # the connection is made anew by the command that finds it closed
    clock.now_s += ASK_S / 2
    shipper.run_round()
    assert names(root) == ["0001~org-1.done"]


def test_a_server_that_was_a_replica_in_between_is_taken_for_another_one(
    shipper, root, redis_server, clock
):
    other = connect(redis_server.url)
    other.replicaof("127.0.0.1", 1)
    other.replicaof("NO", "ONE")
    other.close()
    assert shipper.run_round() == (0, 0)
    clock.now_s += ASK_S
    assert shipper.run_round() == (1, 0)
