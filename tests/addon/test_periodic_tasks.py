import asyncio

import pytest

from addon import periodic_tasks
from addon.periodic_tasks import PeriodicTasks


def fail(_now_s):
    raise ValueError("a mistake")


def test_a_task_that_fails_keeps_none_from_being_done(caplog):
    done: list[float] = []
    periodic_tasks.run_all([fail, done.append, fail], 5.0)
    assert done == [5.0]
    assert caplog.text.count("A periodic task failed") == 2


async def test_tasks_are_run_until_it_stops(monkeypatch):
    monkeypatch.setattr(periodic_tasks, "TICK_S", 0)
    often: list[float] = []
    seldom: list[float] = []
    enough = asyncio.Event()

    def note(now_s):
        often.append(now_s)
        if len(often) == 10:
            enough.set()

    tasks = PeriodicTasks(often=[note], seldom=[seldom.append])
    tasks.start()
    await enough.wait()
    tasks.stop()
    assert len(seldom) == 1
    assert tasks._task is not None
    with pytest.raises(asyncio.CancelledError):
        await tasks._task


def test_what_was_never_started_can_be_stopped():
    PeriodicTasks(often=[], seldom=[]).stop()
