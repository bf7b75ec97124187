"""The choice of the request that is computed next. The clock stands still unless it is moved."""

import asyncio

import pytest

from dashboard.queries.lanes import HALF_LIFE_S, SLOW_ABOVE_S, Lanes


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lanes(clock):
    """One slow place, two quick ones."""
    return Lanes(2, clock)


def begin(lanes, organization_id):
    return asyncio.create_task(lanes.acquire(organization_id))


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_quick_requests_do_not_wait_for_slow_ones(lanes):
    slow = await lanes.acquire("slow")
    assert lanes.note_slow(slow)
    places = [await lanes.acquire(name) for name in ("a", "b")]
    assert not any(place.is_slow for place in places)
    waiting = begin(lanes, "c")
    await settle()
    assert not waiting.done(), "both quick places are taken"
    lanes.release(places[0])
    assert not (await waiting).is_slow


async def test_a_slow_request_begins_anew_when_another_has_the_slow_place(lanes):
    first, second = await lanes.acquire("a"), await lanes.acquire("b")
    assert lanes.note_slow(first)
    assert not lanes.note_slow(second)
    lanes.release(second)
    again = asyncio.create_task(lanes.acquire("b", is_slow=True))
    await settle()
    assert not again.done()
    lanes.release(first)
    assert (await again).is_slow


async def test_an_organisation_that_spent_much_on_slow_requests_is_slow_for_a_while(lanes, clock):
    for seconds, is_slow_then in ((0.5 * SLOW_ABOVE_S, False), (SLOW_ABOVE_S, True)):
        place = await lanes.acquire("a")
        assert lanes.note_slow(place)
        clock.now_s += seconds
        lanes.release(place)
        assert lanes.is_slow("a") == is_slow_then
    place = await lanes.acquire("a")
    assert place.is_slow
    lanes.release(place)
    clock.now_s += 2 * HALF_LIFE_S
    assert not (await lanes.acquire("a")).is_slow


async def test_many_quick_requests_make_no_slow_organisation(lanes, clock):
    for _ in range(1_000):
        place = await lanes.acquire("a")
        clock.now_s += 0.02
        lanes.release(place)
    assert not lanes.is_slow("a")


async def test_who_used_least_lately_comes_first(lanes, clock):
    for name, seconds in (("busy", 0.5), ("quiet", 0.05)):
        place = await lanes.acquire(name)
        clock.now_s += seconds
        lanes.release(place)
    held = [await lanes.acquire("x"), await lanes.acquire("y")]
    order = []

    async def wait(name):
        place = await lanes.acquire(name)
        order.append(name)
        lanes.release(place)

    tasks = [asyncio.create_task(wait(name)) for name in ("busy", "busy", "quiet")]
    await settle()
    lanes.release(held[0])
    await asyncio.gather(*tasks)
    assert order == ["quiet", "busy", "busy"]


async def test_newcomers_keep_nobody_waiting_for_long_who_used_more(lanes, clock):
    place = await lanes.acquire("busy")
    clock.now_s += 1.0
    lanes.release(place)
    held = [await lanes.acquire("x"), await lanes.acquire("y")]
    busy = begin(lanes, "busy")
    await settle()
    served = 0
    while not busy.done() and served < 100:
        newcomer = begin(lanes, f"new_{served}")
        await settle()
        clock.now_s += 0.01
        lanes.release(held.pop(0))
        await settle()
        held.append((busy if busy.done() else newcomer).result())
        newcomer.cancel()
        served += 1
    assert 1 < served < 20
    busy.cancel()


async def test_only_whoever_used_more_than_one_who_waits_is_in_the_way(lanes, clock):
    place = await lanes.acquire("busy")
    clock.now_s += 0.5
    lanes.release(place)
    busy, quiet = await lanes.acquire("busy"), await lanes.acquire("quiet")
    assert not lanes.is_blocking_others(busy), "nobody waits"
    waiting = [begin(lanes, "busy")]
    await settle()
    assert not lanes.is_blocking_others(busy)
    assert not lanes.is_blocking_others(quiet), "its page takes long because others are at work"
    waiting.append(begin(lanes, "new"))
    await settle()
    assert lanes.is_blocking_others(busy)
    assert not lanes.is_blocking_others(quiet)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_whoever_stops_waiting_takes_no_place(lanes):
    held = [await lanes.acquire("x"), await lanes.acquire("y")]
    left, stays = begin(lanes, "left"), begin(lanes, "stays")
    await settle()
    left.cancel()
    await settle()
    lanes.release(held[0])
    await stays
    lanes.release(held[1])
    assert (await lanes.acquire("z")).is_held


async def test_a_place_that_was_given_to_somebody_who_left_is_given_on(lanes):
    held = [await lanes.acquire("x"), await lanes.acquire("y")]
    left = begin(lanes, "left")
    await settle()
    lanes.release(held[0])  # it has the place now, and does not know it
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    assert (await asyncio.wait_for(lanes.acquire("z"), 60)).is_held


async def test_giving_back_twice_makes_no_second_place(lanes):
    place = await lanes.acquire("a")
    lanes.release(place)
    lanes.release(place)
    await lanes.acquire("b")
    await lanes.acquire("c")
    waiting = begin(lanes, "d")
    await settle()
    assert not waiting.done()
    waiting.cancel()


async def test_what_is_known_of_organisations_is_bounded(lanes, clock):
    for number in range(3_000):
        lanes.release(await lanes.acquire(f"org_{number}"))
        clock.now_s += 0.01
    assert len(lanes._accounts) <= 1_001
