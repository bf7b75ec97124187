"""Whatever dies or stops, at whatever moment: no entry is lost, none is doubled, bodies are exact."""

import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress

import pytest

from tests.live.lives.streams import (
    Stream,
    assert_complete,
    assert_interrupted_by_restart,
    events_of,
    number_of,
    numbered,
    rows_by_number,
)
from tests.live.lives.traffic import Workers, wait_for_traffic
from tests.live.service import Child, Endpoint, body_bytes
from tests.rawclient import Cut
from tests.upstream import message_json, sse, wait_until


@pytest.mark.parametrize("victims", [("proxy",), ("recorder", "web")], ids="-".join)
def test_kill_9_in_the_middle_of_50_streams_loses_and_doubles_nothing(
    crashing: Endpoint, open_streams: Callable[..., list[Stream]], victims: tuple[Child, ...]
) -> None:
    streams = open_streams(crashing, 50)
    finished, open_still = streams[:20], streams[20:]
    for stream in finished:
        stream.finish()
    killed = crashing.service.kill9(*victims)
    if "proxy" in victims:
        for stream in open_still:
            stream.assert_cut()
    else:
        for stream in open_still:
            stream.finish()
    crashing.service.wait_restarted(killed)

    rows = rows_by_number(crashing.rows())
    seen = {number_of(request) for request in crashing.upstream.requests}
    assert set(rows) == seen == set(range(50))
    for stream in finished:
        assert_complete(rows[stream.number], stream)
    for stream in open_still:
        check = assert_interrupted_by_restart if "proxy" in victims else assert_complete
        check(rows[stream.number], stream)


def test_kill_9_under_flowing_traffic_loses_and_doubles_nothing(crashing: Endpoint) -> None:
    upstream = crashing.upstream
    upstream.choose = lambda seen: sse(events_of(number_of(seen)))
    whole: dict[int, bytes] = {}

    def call(number: int) -> None:
        with suppress(Cut, ConnectionError), crashing.connect() as client:
            response = client.exchange(numbered(crashing, number))
            if response.status == 200 and not response.cut:
                whole[number] = response.body

    kills: tuple[tuple[Child, ...], ...] = (("recorder",), ("proxy", "recorder"))
    with Workers(call, range(200)):
        for turn, victims in enumerate(kills, 1):
            wait_for_traffic(upstream, 50 * turn)
            crashing.service.wait_restarted(crashing.service.kill9(*victims))

    rows = rows_by_number(crashing.rows())
    seen = {number_of(request) for request in upstream.requests}
    assert seen <= set(rows)
    # A call is kept before it is forwarded: the proxy can die between the two.
    for number in set(rows) - seen:
        assert (rows[number]["outcome"], rows[number]["status_code"]) == ("proxy_restarted", None)
    for number, body in whole.items():
        assert body_bytes(rows[number]["response_body"]) == body
    for number in set(rows) - set(whole):
        stored = body_bytes(rows[number]["response_body"]) or b""
        assert b"".join(events_of(number)).startswith(stored)
    assert crashing.service.unreadable_files() == []


def test_a_locked_trace_database_delays_entries_and_fails_nobody(crashing: Endpoint) -> None:
    crashing.send(numbered(crashing, 0))
    assert len(crashing.rows()) == 1
    [path] = crashing.service.data_dir.glob("traces/*/traces.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("begin exclusive")
        for number in range(1, 20):
            assert crashing.send(numbered(crashing, number)).status == 200
        database.execute("rollback")
    assert set(rows_by_number(crashing.rows())) == set(range(20))
    crashing.service.wait_healthy()  # told while it lasted, if it lasted long enough to be noticed


def test_a_spool_that_cannot_be_written_fails_nobody_and_is_loud(crashing: Endpoint) -> None:
    service = crashing.service
    crashing.send(numbered(crashing, 0))
    assert set(rows_by_number(crashing.rows())) == {0}
    complaints = service.output.count("spool")
    spool = service.data_dir / "spool"
    shutil.rmtree(spool)
    spool.touch()
    assert crashing.send(numbered(crashing, 1)).body == message_json()
    crashing.upstream.enqueue(sse(events_of(2)))
    assert crashing.send(numbered(crashing, 2)).body == b"".join(events_of(2))
    service.wait_until(lambda: service.output.count("spool") > complaints, "a complaint")
    spool.unlink()
    assert crashing.send(numbered(crashing, 3)).status == 200
    assert set(rows_by_number(service.wait_for_rows(2, crashing.slug))) == {0, 3}


def test_a_second_interrupt_ends_at_once_and_the_next_start_keeps_everything(
    ending: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service = ending.service
    streams = open_streams(ending, 3)
    service.signal(signal.SIGINT)
    wait_until(service.refuses, "the front door to be closed")
    service.signal(signal.SIGINT)
    service.wait()
    for stream in streams:
        stream.assert_cut()
    service.start()
    rows = rows_by_number(ending.rows())
    assert set(rows) == {0, 1, 2}
    for stream in streams:
        assert_interrupted_by_restart(rows[stream.number], stream)
