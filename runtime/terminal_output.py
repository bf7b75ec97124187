"""Writing to a terminal without waiting for it.

A stream that stands still (a paused terminal, a pipe into a stopped program) blocks its writer. So
a thread writes, from a queue of bounded length, and what finds no room is dropped.
"""

import queue
import threading
from contextlib import suppress
from typing import TextIO

MAX_WAITING_TEXTS = 2000
LAST_LINES_S = 0.5


class LineWriter:
    def __init__(self, stream: TextIO) -> None:
        if hasattr(stream, "reconfigure"):  # not every terminal can show every character
            stream.reconfigure(errors="replace")
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_WAITING_TEXTS)
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)
        self._thread.start()

    def write_line(self, line: str) -> None:
        """Write a line soon, or several in one text, which takes no longer. Never waits, never raises."""
        with suppress(queue.Full):
            self._lines.put_nowait(line)

    def close(self) -> None:
        """Wait for the last lines, but not for long."""
        with suppress(queue.Full):
            self._lines.put_nowait(None)
        self._thread.join(LAST_LINES_S)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            with suppress(OSError, ValueError):  # gone, or closed
                self._stream.write(f"{line}\n")
                self._stream.flush()
