"""The state that a node tells on ``/healthz`` and ``/metrics``."""

import time

from extensions.cluster.state import ClusterState
from runtime import extensions
from runtime.node import PARTS, Node


def read(data_dir, *parts):
    node = Node(parts=frozenset(parts) or PARTS, copy="main")
    (found,) = extensions.call().health(node=node, data_dir=data_dir)
    return found


def test_one_machine_says_nothing_of_a_cluster(tmp_path):
    ClusterState(beat_s=time.monotonic()).write(tmp_path)
    assert extensions.call().health(node=Node(), data_dir=tmp_path) == []


def test_a_node_without_its_process_says_so(tmp_path):
    health = read(tmp_path)
    assert health.reasons == ["the cluster process is not running"]
    assert (health.document, health.gauges) == ({}, ())


def test_a_node_says_what_fails(tmp_path):
    state = ClusterState(beat_s=time.monotonic(), failing=["shipper"], unshipped=3, unserved=2)
    state.write(tmp_path)
    health = read(tmp_path)
    assert health.reasons == [
        "the shipper of the cluster fails: see the server log",
        "no live node has the calls of 2 organisations",
    ]
    assert health.document == {
        "cluster": {"failing": ["shipper"], "unshipped": 3, "in_flight": None, "lag": None}
    }


def test_calls_in_flight_are_a_figure_where_no_pages_count_them(tmp_path):
    state = ClusterState(
        beat_s=time.monotonic(), failing=["receiver"], unshipped=3, in_flight=2, lag=7
    )
    state.write(tmp_path)
    found = {each.name: each.value for each in read(tmp_path).gauges}
    assert found == {
        "taximeter_cluster_failing_parts": 1,
        "taximeter_cluster_unshipped_files": 3,
        "taximeter_cluster_lag_entries": 7,
    }
    of_proxy = {each.name: each.value for each in read(tmp_path, "proxy").gauges}
    assert of_proxy == found | {"taximeter_in_flight": 2}
