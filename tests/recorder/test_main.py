import errno
import os
from itertools import pairwise
from types import SimpleNamespace

from recorder.__main__ import Recorder
from recorder.ingest import Ingester, Round
from runtime.heartbeat import Heartbeat
from runtime.settings import Settings
from runtime.terminal_output import LineWriter
from store.spool.format import Ending
from store.spool.writer import SpoolRun
from tests.store.spool.heads import make_head


def test_where_no_reserve_can_be_made_the_recorder_shows_that_it_lives(tmp_path, monkeypatch):
    def refuse(_fd, _offset, _size):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    monkeypatch.setattr("runtime.heartbeat.FRESH_FOR_S", 60.0)
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


def test_what_was_said_is_indexed_unless_that_is_off(tmp_path):
    environ = {"TAXIMETER_DATA_DIR": str(tmp_path)}
    every, fewer = (
        len(Recorder(Settings.from_env(environ | more))._ingester._work)
        for more in ({}, {"TAXIMETER_SEARCH_INDEX": "off"})
    )
    assert fewer == every - 1


def test_a_recorder_that_never_rests_takes_a_step_each_second(tmp_path, monkeypatch):
    recorder = Recorder(Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)}))
    now_s = 100.0
    rounds, steps = 0, []

    def run_round(_ingester):
        nonlocal now_s, rounds
        now_s += 0.25
        rounds += 1
        if rounds == 20:
            recorder.stop()
        return Round(has_more=rounds < 20)

    clock = SimpleNamespace(monotonic=lambda: now_s, sleep=lambda _: None)
    monkeypatch.setattr("recorder.__main__.time", clock)
    monkeypatch.setattr(Ingester, "run_round", run_round)
    monkeypatch.setattr(Ingester, "work_in_background", lambda _ingester: steps.append(now_s))
    recorder.run()
    assert [after - before for before, after in pairwise(steps[:-1])] == [1.0] * 4


def test_the_lines_of_a_batch_are_written_at_once(tmp_path, monkeypatch):
    """A text wakes the thread that writes, which takes as long as to read a response."""
    texts = []
    monkeypatch.setattr(LineWriter, "write_line", lambda _writer, text: texts.append(text))
    monkeypatch.setattr("recorder.entry_store.BATCH_S", 60.0)
    settings = Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)})
    run = SpoolRun(settings.spool_path)
    for slug in ("first", "second"):
        head = make_head(slug, created_at="2026-01-31T14:03:27.678Z", slug=slug)
        run.create(head, b"{}").finish(Ending(outcome="upstream_unreachable"), 1.0)
    run.close()
    recorder = Recorder(settings)
    recorder.stop()
    recorder.run()
    (text,) = texts
    assert [line[:27] for line in text.splitlines()] == [
        "2026-01-31 14:03:27Z  first",
        "2026-01-31 14:03:27Z  secon",
    ]
