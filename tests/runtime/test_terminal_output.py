import io
import os
from contextlib import suppress

from runtime.terminal_output import Outlet


def test_lines_come_out_in_order():
    stream = io.StringIO()
    outlet = Outlet(stream)
    outlet.say("one")
    outlet.say("two")
    outlet.close()
    assert stream.getvalue() == "one\ntwo\n"


def test_a_stream_that_nobody_reads_holds_nobody_up():
    read_fd, write_fd = os.pipe()
    stream = os.fdopen(write_fd, "w")
    outlet = Outlet(stream)
    for _ in range(5000):
        outlet.say("x" * 1000)
    outlet.close()
    os.close(read_fd)  # and the thread that waits for it gets an error
    with suppress(OSError):
        stream.close()


def test_a_closed_stream_is_no_error():
    stream = io.StringIO()
    stream.close()
    outlet = Outlet(stream)
    outlet.say("lost")
    outlet.close()


def test_characters_that_the_stream_cannot_show_are_replaced():
    buffer = io.BytesIO()
    outlet = Outlet(io.TextIOWrapper(buffer, encoding="ascii"))
    outlet.say("modèle")
    outlet.close()
    assert buffer.getvalue() == b"mod?le\n"
