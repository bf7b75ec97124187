import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from runtime import heartbeat
from runtime.heartbeat import FRESH_FOR_S, Heartbeat

NOW_S = 1000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The clock of all processes, which stands still."""
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: NOW_S))


def test_a_heartbeat_is_read_back_and_grows_stale(tmp_path):
    beat = Heartbeat(pid=os.getpid(), beat_s=NOW_S - FRESH_FOR_S, waiting=3)
    beat.write(tmp_path)
    assert Heartbeat.read(tmp_path) == beat
    assert beat.is_fresh
    assert not replace(beat, beat_s=beat.beat_s - 0.1).is_fresh


def test_a_beat_from_before_a_reboot_is_not_fresh():
    assert not Heartbeat(pid=os.getpid(), beat_s=NOW_S + 1).is_fresh


def test_no_heartbeat_or_a_broken_one_is_none(tmp_path):
    assert Heartbeat.read(tmp_path) is None
    Heartbeat.path(tmp_path).write_text("{")
    assert Heartbeat.read(tmp_path) is None
    Heartbeat.path(tmp_path).write_text('{"unknown": 1}')
    assert Heartbeat.read(tmp_path) is None


def test_a_recorder_that_is_gone_is_noticed_at_once():
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    assert not Heartbeat(pid=gone.pid, beat_s=NOW_S).is_fresh
