"""Enter, pressed in the terminal that a command runs in."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_LINE_BYTES = 4096


def can_press(terminal: TextIO | None) -> bool:
    """Return whether somebody may type into this file."""
    return terminal is not None and terminal.isatty()


@contextmanager
def calling_on_enter(action: Callable[[], object]) -> Iterator[None]:
    """Call a function each time when Enter is pressed, within the block and the event loop that runs.

    Nothing is watched where standard input is no terminal."""
    terminal = sys.stdin
    if not can_press(terminal):
        yield
        return
    loop, descriptor = asyncio.get_running_loop(), terminal.fileno()

    def read_line() -> None:
        # What is in the background is stopped when it reads, and at the end of its input a terminal is
        # always ready to be read.
        if not _is_in_foreground(descriptor) or not os.read(descriptor, _LINE_BYTES):
            loop.remove_reader(descriptor)
            return
        action()

    loop.add_reader(descriptor, read_line)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)


def _is_in_foreground(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # not the terminal that this process belongs to, which stops nobody
        return True
