"""A backup of a recorder node is begun when the node has what other copies have."""

import time

import pytest

from extensions.cluster.settings import NODE_FILE
from extensions.cluster.state import ClusterState


@pytest.mark.parametrize(("level_s", "is_behind"), [(1e12, False), (0.0, True), (None, True)])
def test_a_recorder_node_waits_until_it_has_what_other_copies_have(
    run, data_dir, tmp_path, monkeypatch, level_s, is_behind
):
    monkeypatch.setattr("extensions.cluster.known_copies.PATIENCE_S", 0.2)
    (data_dir / NODE_FILE).write_text("node")
    ClusterState(beat_s=time.monotonic(), level_s=level_s).write(data_dir)
    made = run("backup", str(tmp_path / "backup"))
    assert made.exit_code == 0
    assert ("has not received all" in made.stderr) is is_behind
    assert NODE_FILE not in made.stderr


def test_the_backup_of_a_recorder_node_that_does_not_run_says_what_it_may_lack(
    run, data_dir, tmp_path
):
    (data_dir / NODE_FILE).write_text("node")
    assert "has not received all" in run("backup", str(tmp_path / "backup")).stderr
