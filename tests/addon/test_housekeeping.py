import asyncio

import pytest

from addon import housekeeping
from addon.housekeeping import Housekeeping


def fail(_now_s):
    raise ValueError("a mistake")


def test_a_chore_that_fails_keeps_none_from_being_done(caplog):
    done: list[float] = []
    housekeeping.do_all([fail, done.append, fail], 5.0)
    assert done == [5.0]
    assert caplog.text.count("Housekeeping failed") == 2


async def test_chores_are_done_until_it_stops(monkeypatch):
    monkeypatch.setattr(housekeeping, "TICK_S", 0)
    often: list[float] = []
    seldom: list[float] = []
    enough = asyncio.Event()

    def note(now_s):
        often.append(now_s)
        if len(often) == 10:
            enough.set()

    keeping = Housekeeping(often=[note], seldom=[seldom.append])
    keeping.start()
    await enough.wait()
    keeping.stop()
    assert len(seldom) == 1
    assert keeping._task is not None
    with pytest.raises(asyncio.CancelledError):
        await keeping._task


def test_what_was_never_started_can_be_stopped():
    Housekeeping(often=[], seldom=[]).stop()
