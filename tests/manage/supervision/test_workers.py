import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest

from manage.supervision.workers import COUNT, Workers
from runtime.settings import Settings


@pytest.fixture
def settings(tmp_path):
    return Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)})


@pytest.fixture
def workers(settings):
    return Workers(settings, "test")


def find_local_user(control):
    return control.find_user(None)


async def test_each_call_has_a_connection_alone(workers):
    barrier = threading.Barrier(COUNT, timeout=60)

    def meet(control):
        barrier.wait()
        return id(control)

    with workers.running():
        met = await asyncio.gather(*(workers.run(meet) for _ in range(COUNT * 3)))
    assert len(set(met)) == COUNT
    assert all(met.count(each) == 3 for each in set(met))


async def test_what_a_call_raises_comes_back_and_harms_no_other(workers):
    def fail(_control):
        raise ZeroDivisionError

    with workers.running():
        for _ in range(COUNT * 2):
            with pytest.raises(ZeroDivisionError):
                await workers.run(fail)
        assert await workers.run(find_local_user) is None


async def test_a_busy_writer_stalls_neither_the_loop_nor_those_who_read(settings, workers):
    with workers.running():
        with closing(sqlite3.connect(settings.control_path, isolation_level=None)) as writer:
            writer.execute("begin immediate")
            waiting = asyncio.create_task(workers.run(lambda control: control.set_up()))
            for _ in range(5):
                assert await workers.run(find_local_user) is None
            assert not waiting.done()
            writer.execute("commit")
        assert await waiting is True


def test_all_threads_are_there_before_the_first_call(workers):
    with workers.running():
        names = [thread.name for thread in threading.enumerate()]
        assert sum(name.startswith("test_") for name in names) == COUNT


def test_a_thread_that_cannot_be_started_is_an_error_and_no_other_waits_for_it(
    workers, monkeypatch
):
    start, started = threading.Thread.start, []

    def start_few(thread):
        started.append(thread)
        if len(started) == COUNT:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_few)
    with pytest.raises(RuntimeError), workers.running():
        pass
    assert not any(thread.is_alive() for thread in started)
