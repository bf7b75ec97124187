"""Calling a function when Enter is pressed in the terminal of a command."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_LINE_BYTES = 4096


def can_press(terminal: TextIO | None) -> bool:
    """Return whether a file is a terminal, so that somebody may press keys there."""
    return terminal is not None and terminal.isatty()


@contextmanager
def calling_on_enter(action: Callable[[], object]) -> Iterator[None]:
    """Call ``action`` at each press of Enter in the block, from the running event loop.

    Does nothing if standard input is no terminal."""
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
