"""The process of a node ends as a whole, and ships what is left first."""

import pytest

from extensions.cluster.__main__ import Node, Work
from extensions.cluster.state import ClusterState
from extensions.cluster.tests.spools import names, spool
from runtime.settings import Settings
from store.spool.writer import SpoolRun


@pytest.fixture
def node(tmp_path, redis_server):
    return Node(
        Settings.from_env(
            {
                "TAXIMETER_DATA_DIR": str(tmp_path),
                "TAXIMETER_CLUSTER": redis_server.url,
                "TAXIMETER_ROLE": "proxy",
            }
        )
    )


def test_a_part_that_fails_for_an_unforeseen_reason_ends_the_process(node, monkeypatch):
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    works = [Work("broken", lambda: 1 / 0), Work("sound", lambda: 60.0)]
    monkeypatch.setattr(node, "_find_work", lambda: works)
    assert node.run() is False


def test_what_is_in_the_spool_is_shipped_before_the_end(node, tmp_path):
    run = SpoolRun(tmp_path / "outgoing", reserve_bytes=0)
    spool(run, "0001")
    run.close()
    node.stop()
    assert node.run() is True
    assert names(tmp_path / "outgoing") == ["0001~org-1.sent"]
    state = ClusterState.read(tmp_path)
    assert state is None or state.failing == []


def test_a_node_says_which_part_fails_while_it_does(node, tmp_path, redis_server):
    redis_server.kill()
    shipper = node._begin_shipping()
    fails = iter([True, False])
    seen = []

    def run():
        if next(fails):
            return shipper.run()
        node._beat()
        seen.append(ClusterState.read(tmp_path))
        node.stop()
        return 0.0

    node._repeat(Work("shipper", run))
    node._beat()
    seen.append(ClusterState.read(tmp_path))
    assert [state and state.failing for state in seen] == [["shipper"], []]


def test_the_folder_of_a_proxy_that_has_ended_is_removed(node, tmp_path):
    ended, alive = (SpoolRun(tmp_path / "outgoing", reserve_bytes=0) for _ in range(2))
    ended.close()
    node._beat()
    assert [path.name for path in (tmp_path / "outgoing").iterdir()] == [alive.path.name]
    alive.close()
