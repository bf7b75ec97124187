import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest

from manage.workers import COUNT, Workers
from store.settings import Settings


@pytest.fixture
def settings(tmp_path):
    return Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)})


async def test_each_call_has_a_connection_alone(settings):
    barrier = threading.Barrier(COUNT, timeout=10)

    def meet(management):
        barrier.wait()
        return id(management)

    with Workers.open(settings) as workers:
        met = await asyncio.gather(*(workers.run(meet) for _ in range(COUNT * 3)))
    assert len(set(met)) == COUNT
    assert all(met.count(each) == 3 for each in set(met))


async def test_what_a_call_raises_comes_back_and_harms_no_other(settings):
    def fail(_management):
        raise ZeroDivisionError

    with Workers.open(settings) as workers:
        for _ in range(COUNT * 2):
            with pytest.raises(ZeroDivisionError):
                await workers.run(fail)
        assert await workers.run(lambda management: management.list_users()) == []


async def test_a_busy_writer_stalls_neither_the_loop_nor_those_who_read(settings):
    with Workers.open(settings) as workers:
        with closing(sqlite3.connect(settings.control_path, isolation_level=None)) as writer:
            writer.execute("begin immediate")
            waiting = asyncio.create_task(
                workers.run(lambda management: management.create_user("ann@example.org"))
            )
            for _ in range(5):
                assert await workers.run(lambda management: management.list_users()) == []
            assert not waiting.done()
            writer.execute("commit")
        assert (await waiting).email == "ann@example.org"
