import errno
import os

from recorder.__main__ import Prices, Recorder
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


def test_a_bad_price_file_at_the_start_leaves_the_built_in_prices(tmp_path, caplog):
    path = tmp_path / "prices.toml"
    path.write_text("{{{")
    prices = Prices(path)
    assert "CANNOT BE USED" in caplog.text
    assert prices() is not None
    path.write_text("models = []")
    before = prices()
    prices.refresh()
    assert prices() is not before


def test_a_price_file_that_becomes_bad_leaves_the_last_good_prices(tmp_path, caplog):
    path = tmp_path / "prices.toml"
    path.write_text("models = []")
    prices = Prices(path)
    good = prices()
    path.write_text("[[models]]\nmatch = 3")
    prices.refresh()
    assert prices() is good
    prices.refresh()
    assert caplog.text.count("CANNOT BE USED") == 1
