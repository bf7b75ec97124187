import errno
import os

from store.spool.format import Ending
from tests.addon.spooling import fail_with, read_all


def test_a_response_that_does_not_fit_leaves_the_entry_and_says_so(
    spooler, open_capture, tmp_path, monkeypatch
):
    capture = open_capture(spooler)
    capture.write_response_head(200, {}, 1.0)
    capture.write_chunk(b"first", 1.0)
    with monkeypatch.context() as broken:
        fail_with(broken, errno.ENOSPC)
        capture.write_chunk(b"lost", 2.0)
    capture.write_chunk(b"after the hole", 3.0)
    capture.finish(Ending(outcome="complete", response_bytes=23), 3.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.response_body == b"first"
    assert exchange.ending.response_lost
    assert spooler.troubles.responses_not_kept == 1


def test_an_ending_that_does_not_fit_still_hands_the_file_over(
    spooler, open_capture, tmp_path, monkeypatch
):
    capture = open_capture(spooler)
    capture.write_chunk(b"text", 1.0)
    with monkeypatch.context() as broken:
        fail_with(broken, errno.ENOSPC)
        capture.finish(Ending(outcome="complete"), 2.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.response_body == b"text"


def test_a_torn_write_is_cut_off_again(spooler, open_capture, tmp_path, monkeypatch):
    capture = open_capture(spooler)
    real = os.writev
    with monkeypatch.context() as broken:
        broken.setattr(
            "store.spool.writer.os.writev",
            lambda fd, parts: real(fd, [b"".join(parts)[:7]]),
        )
        capture.write_chunk(b"torn", 1.0)
    capture.finish(Ending(outcome="complete"), 2.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.response_body == b""
    assert exchange.ending.outcome == "complete"


def test_a_discarded_exchange_leaves_nothing(spooler, open_capture, tmp_path):
    open_capture(spooler).discard()
    assert [path.name for path in (tmp_path / "spool").rglob("*") if path.is_file()] == ["lock"]
