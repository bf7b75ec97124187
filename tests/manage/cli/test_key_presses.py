"""Enter in a real terminal; what is no terminal is left alone."""

import asyncio
import os
import sys

import pytest

from manage.cli.key_presses import calling_on_enter, can_press


@pytest.fixture
def terminal(monkeypatch):
    """The other end of the terminal that is standard input."""
    ours, theirs = os.openpty()
    with open(theirs) as stdin, open(ours, "wb", buffering=0) as keyboard:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", stdin)
        yield keyboard


async def test_each_enter_calls_the_function_until_the_block_ends(terminal):
    pressed: asyncio.Queue[bool] = asyncio.Queue()
    with calling_on_enter(lambda: pressed.put_nowait(True)):
        for _ in range(2):
            terminal.write(b"\n")
            await asyncio.wait_for(pressed.get(), 30)
        assert can_press(sys.stdin)
    assert not asyncio.get_running_loop().remove_reader(sys.stdin)


@pytest.fixture
async def left(monkeypatch):
    """An event: the terminal is no longer watched."""
    loop, left = asyncio.get_running_loop(), asyncio.Event()
    remove = loop.remove_reader

    def note(descriptor):
        left.set()
        return remove(descriptor)

    monkeypatch.setattr(loop, "remove_reader", note)
    return left


async def test_at_the_end_of_the_input_nothing_more_is_read(terminal, left):
    with calling_on_enter(lambda: pytest.fail("Enter was not pressed")):
        terminal.write(b"\x04")
        await asyncio.wait_for(left.wait(), 30)


async def test_what_was_put_into_the_background_does_not_read(terminal, left, monkeypatch):
    monkeypatch.setattr(os, "tcgetpgrp", lambda _descriptor: os.getpgrp() + 1)
    with calling_on_enter(lambda: pytest.fail("it would be stopped")):
        terminal.write(b"\n")
        await asyncio.wait_for(left.wait(), 30)


@pytest.mark.parametrize("stdin", [None, "a file"])
async def test_what_is_no_terminal_is_not_read(stdin, tmp_path, monkeypatch):
    (tmp_path / "a file").write_text("\n")
    with (tmp_path / "a file").open() as file:
        monkeypatch.setattr(sys, "stdin", file if stdin else None)
        with calling_on_enter(lambda: pytest.fail("read")):
            assert not can_press(sys.stdin)
            await asyncio.sleep(0)
