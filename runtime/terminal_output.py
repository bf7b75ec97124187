"""Writing to a terminal without waiting for it.

A stream whose reader has stopped (a paused terminal, a pipe into a stopped program) blocks its writer.
So a thread writes, from a queue of bounded length, and lines that do not fit are dropped.

At the end it is waited for in turns, which are counted: while a busy machine takes the processor away
from the whole process, the thread has no time to write, and no turn passes."""

import queue
import threading
from contextlib import suppress
from typing import TextIO

MAX_WAITING_TEXTS = 2000
TURN_S, LAST_LINES_TURNS = 0.05, 10


class LineWriter:
    def __init__(self, stream: TextIO) -> None:
        if hasattr(stream, "reconfigure"):  # not every terminal can show every character
            stream.reconfigure(errors="replace")
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_WAITING_TEXTS)
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)
        self._thread.start()

    def write_line(self, line: str) -> None:
        """Queue a line, or several lines in one text, which costs no more. Never waits, never raises."""
        with suppress(queue.Full):
            self._lines.put_nowait(line)

    def close(self) -> None:
        """Wait a short time for the last lines to be written."""
        with suppress(queue.Full):
            self._lines.put_nowait(None)
        for _ in range(LAST_LINES_TURNS):
            self._thread.join(TURN_S)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            with suppress(OSError, ValueError):  # gone, or closed
                self._stream.write(f"{line}\n")
                self._stream.flush()
