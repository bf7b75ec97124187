import io
import os
from contextlib import suppress

import pytest

from runtime import terminal_output
from runtime.terminal_output import LineWriter


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Let the last lines have all the time that their thread needs."""
    monkeypatch.setattr(terminal_output, "TURN_S", 6.0)


def test_lines_come_out_in_order():
    stream = io.StringIO()
    writer = LineWriter(stream)
    writer.write_line("one")
    writer.write_line("two")
    writer.close()
    assert stream.getvalue() == "one\ntwo\n"


def test_a_stream_that_nobody_reads_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(terminal_output, "TURN_S", 0.001)
    read_fd, write_fd = os.pipe()
    stream = os.fdopen(write_fd, "w")
    writer = LineWriter(stream)
    for _ in range(5000):
        writer.write_line("x" * 1000)
    writer.close()
    os.close(read_fd)  # and the thread that waits for it gets an error
    with suppress(OSError):
        stream.close()


def test_a_pause_of_the_whole_process_is_no_time_to_write_in(monkeypatch):
    """The time of a turn passes during such a pause, after which the thread has not run yet."""
    stream = io.StringIO()
    writer = LineWriter(stream)
    join, turns = writer._thread.join, []

    def pause_and_join(timeout):
        turns.append(timeout)
        if len(turns) > 1:  # in the first turn the time is over at once
            join(timeout)

    monkeypatch.setattr(writer._thread, "join", pause_and_join)
    writer.write_line("the last")
    writer.close()
    assert stream.getvalue() == "the last\n"
    assert len(turns) > 1


def test_a_closed_stream_is_no_error():
    stream = io.StringIO()
    stream.close()
    writer = LineWriter(stream)
    writer.write_line("lost")
    writer.close()


def test_characters_that_the_stream_cannot_show_are_replaced():
    buffer = io.BytesIO()
    writer = LineWriter(io.TextIOWrapper(buffer, encoding="ascii"))
    writer.write_line("modèle")
    writer.close()
    assert buffer.getvalue() == b"mod?le\n"
