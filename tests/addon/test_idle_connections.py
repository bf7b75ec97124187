import errno

import pytest

from addon import idle_connections
from addon.idle_connections import IdleConnections
from runtime import trouble_log

LIMIT = 40


@pytest.fixture
async def crowd(connect):
    """Makes 20 idle connections where so many descriptors of 40 are in use; returns both."""

    def make(in_use):
        def count():
            if in_use is None:
                raise OSError(errno.EMFILE, "Too many open files")
            return in_use

        idle = IdleConnections(count, lambda: LIMIT)
        handlers = [connect() for _ in range(20)]
        for handler in handlers:
            idle.begin(handler.client.id)
        return idle, handlers

    return make


def find_closed(handlers):
    return [number for number, handler in enumerate(handlers) if handler.closed]


async def test_idle_connections_stay_while_there_are_descriptors(crowd, caplog):
    idle, handlers = crowd(LIMIT * 3 // 4)
    idle.make_room(100.0)
    assert find_closed(handlers) == []
    assert caplog.text == ""


async def test_those_idle_longest_are_closed_until_half_of_the_descriptors_are_free(crowd):
    idle, handlers = crowd(LIMIT * 3 // 4 + 1)
    idle.begin(handlers[0].client.id)  # it had a request in between
    idle.end(handlers[2].client.id)  # it has one now
    idle.make_room(100.0)
    assert find_closed(handlers) == [1, *range(3, 13)]


async def test_without_a_descriptor_to_count_them_all_count_as_used(crowd):
    idle, handlers = crowd(None)
    idle.make_room(100.0)
    assert find_closed(handlers) == list(range(20))


async def test_very_many_are_not_closed_in_one_go(crowd, monkeypatch):
    monkeypatch.setattr(idle_connections, "MOST_AT_ONCE", 7)
    idle, handlers = crowd(LIMIT)
    idle.make_room(100.0)
    assert find_closed(handlers) == list(range(7))


async def test_descriptors_are_not_counted_for_a_few_connections(connect):
    idle = IdleConnections(lambda: pytest.fail("they were counted"), lambda: 1000)
    idle.begin(connect().client.id)
    idle.make_room(100.0)


async def test_a_shortage_is_logged_once_and_again_when_it_comes_back(crowd, caplog, monkeypatch):
    monkeypatch.setattr(idle_connections, "MOST_AT_ONCE", 1)
    idle, _ = crowd(LIMIT)
    for now_s in (100.0, 100.25, 130.0):
        idle.make_room(now_s)
    assert caplog.text.count("idle longest are closed") == 1
    idle.make_room(130.0 + trouble_log.BURST_ENDS_S + 1)
    assert caplog.text.count("idle longest are closed") == 2
