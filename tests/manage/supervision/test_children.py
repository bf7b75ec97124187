import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from manage.supervision import children
from manage.supervision.children import (
    FIRST_PAUSE_S,
    LONG_LIFE_S,
    LONGEST_PAUSE_S,
    NOT_STARTED_STATUS,
    Child,
    DeathWindow,
    RestartRule,
)
from tests.upstream import PATIENCE_S


def python(code: str) -> Child:
    return Child("worker", [sys.executable, "-c", code], [])


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_child_runs_to_its_end_and_its_last_lines_are_kept(capfd):
    child = python("import sys; print('first', file=sys.stderr); sys.exit('second')")
    assert await child.run_once(os.environ) == 1
    assert list(child.last_lines) == ["first", "second"]
    assert "second" in capfd.readouterr().err


async def test_a_child_is_given_what_is_found_for_its_environment_at_each_start():
    child = python("import os, sys; sys.exit(int(os.environ['TURN']))")
    turns = iter("12")
    child.find_environ = lambda: {"TURN": next(turns)}
    assert [await child.run_once(os.environ) for _ in range(2)] == [1, 2]


async def test_a_child_that_is_killed_says_by_which_signal():
    child = python("import signal; signal.pause()")
    running = asyncio.create_task(child.run_once(os.environ))
    await wait_until(lambda: child.is_running)
    child.kill()
    assert await running == -signal.SIGKILL


async def test_a_line_too_long_to_show_stops_nobody():
    # Not sys.stderr, of which a process that is stopped meanwhile writes a part, where it has no buffer.
    child = python("open(2, 'wb').write(b'x' * 1_000_000 + b'\\nend\\n')")
    assert await child.run_once(os.environ) == 0
    assert child.last_lines[-1] == "end"


async def test_what_a_child_says_cannot_steer_the_terminal(capfd):
    child = python("import sys; print('\\x1b[2Jfirst\\r\\u202e', file=sys.stderr)")
    await child.run_once(os.environ | {"PYTHONIOENCODING": "utf-8"})
    assert capfd.readouterr().err == "?[2Jfirst??\n"


async def test_a_child_that_will_not_stop_is_killed_after_its_grace(capfd):
    code = "import signal, sys; signal.signal(15, signal.SIG_IGN); sys.stderr.write('up\\n'); sys.stderr.flush(); signal.pause()"
    child = python(code)
    running = asyncio.create_task(child.run_once(os.environ))
    await wait_until(lambda: child.last_lines)
    await child.stop(0.1)
    assert await running == -signal.SIGKILL
    assert "is killed" in capfd.readouterr().err


async def test_the_end_of_a_child_is_its_own_and_not_that_of_what_it_forked(monkeypatch):
    monkeypatch.setattr(children, "LAST_LINES_S", 0.1)
    code = (
        "import os, signal, sys\n"
        "forked = os.fork() or signal.pause()\n"
        "print(forked, file=sys.stderr, flush=True)\n"
        "os.abort()"
    )
    child = python(code)
    async with asyncio.timeout(PATIENCE_S):
        assert await child.run_once(os.environ) == -signal.SIGABRT
    (forked,) = child.last_lines
    os.kill(int(forked), signal.SIGKILL)


async def test_a_machine_that_has_no_room_for_a_child_is_like_its_end(monkeypatch):
    async def refuse(*_arguments, **_options):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio.get_running_loop(), "subprocess_exec", refuse)
    child = python("")
    descriptors = len(list(Path("/dev/fd").iterdir()))
    assert await child.run_once(os.environ) == NOT_STARTED_STATUS
    assert (
        child.last_lines[-1] == "the process could not be started: Resource temporarily unavailable"
    )
    assert len(list(Path("/dev/fd").iterdir())) == descriptors


async def test_a_child_that_says_so_is_ready_even_when_it_dies_in_the_same_instant():
    child = python("from runtime import readiness; readiness.announce(); import os; os.abort()")
    ready = []
    child.on_ready = lambda: ready.append(child.name)
    assert await child.run_once(os.environ | {"PYTHONPATH": "."}) == -signal.SIGABRT
    assert child.was_ready
    assert ready == ["worker"]


async def test_a_child_that_ends_without_a_word_was_never_ready():
    child = python("")
    assert await child.run_once(os.environ) == 0
    assert not child.was_ready


async def test_a_child_is_ready_while_it_runs():
    child = python(
        "from runtime import readiness; readiness.announce(); import signal; signal.pause()"
    )
    running = asyncio.create_task(child.run_once(os.environ | {"PYTHONPATH": "."}))
    await wait_until(lambda: child.was_ready)
    child.kill()
    await running


def test_pauses_between_restarts_grow_up_to_a_bound_and_never_end():
    rule = RestartRule()
    pauses = [rule.pause_after(0.0) for _ in range(100)]
    assert pauses[0] == FIRST_PAUSE_S
    assert pauses[1] == 2 * FIRST_PAUSE_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_S
    assert rule.deaths == 100


def test_after_a_long_life_pauses_begin_anew():
    rule = RestartRule()
    for _ in range(5):
        rule.pause_after(0.0)
    assert rule.pause_after(LONG_LIFE_S) == FIRST_PAUSE_S
    assert rule.deaths == 1


def test_three_deaths_within_ten_seconds_are_too_often():
    window = DeathWindow()
    assert not window.is_too_often(100.0)
    assert not window.is_too_often(104.0)
    assert window.is_too_often(109.0)


def test_deaths_that_are_far_apart_are_forgiven():
    window = DeathWindow()
    assert not any(window.is_too_often(100.0 + 5.1 * number) for number in range(10))
