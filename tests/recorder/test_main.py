import errno
import os

from recorder.__main__ import Recorder
from runtime.heartbeat import Heartbeat
from runtime.settings import Settings


def test_where_no_reserve_can_be_made_the_recorder_shows_that_it_lives(tmp_path, monkeypatch):
    def refuse(_fd, _offset, _size):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    recorder = Recorder(Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)}))
    recorder.stop()
    recorder.run()
    beat = Heartbeat.read(tmp_path)
    assert beat is not None
    assert beat.is_fresh


def test_a_heartbeat_that_cannot_be_written_is_reported_once_though_rounds_succeed(
    tmp_path, monkeypatch, caplog
):
    def refuse(_beat, _folder):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Heartbeat, "write", refuse)
    monkeypatch.setattr("recorder.__main__.BEAT_S", 0.0)
    recorder = Recorder(Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)}))
    recorder.stop()
    recorder.run()
    assert caplog.text.count("RECORDING IS IMPAIRED") == 1
    assert "Read-only file system" in caplog.text
