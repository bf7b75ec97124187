"""The end of a service, by an order or by force, and what the next start finds."""

import os
import signal
from collections.abc import Callable

import psutil

from tests.live.lives.streams import (
    Stream,
    assert_complete,
    assert_interrupted_by_restart,
    events_of,
    number_of,
    numbered,
    rows_by_number,
)
from tests.live.service import Endpoint, Service, is_over
from tests.rawclient import request
from tests.upstream import Gate, answer, message_json, sse, wait_until


def assert_spool_empty(service: Service) -> None:
    assert service.spool_files() == []
    assert service.unreadable_files() == []


def test_a_start_right_after_a_kill_waits_for_what_the_last_one_still_finishes(
    ending: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service = ending.service
    (stream,) = open_streams(ending, 1)
    old = [psutil.Process(pid) for pid in service.pids().values()]
    recorder = psutil.Process(service.pids()["recorder"])
    service.kill()
    try:
        service.start()
        service.wait_until(
            lambda: f"another recorder (process {recorder.pid}) is still at work" in service.output,
            "a recorder that waits",
        )
        stream.finish()
        assert_complete(rows_by_number(ending.rows())[0], stream)
    finally:
        recorder.kill()  # it would go on for as long as streams may
    wait_until(lambda: all(map(is_over, old)), "the end of the old children")
    ending.upstream.choose = lambda seen: sse(events_of(number_of(seen)))
    assert ending.send(numbered(ending, 1)).status == 200
    assert set(rows_by_number(ending.rows())) == {0, 1}


def test_sigterm_lets_streams_in_flight_end_and_exits_0(
    ending: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service, upstream = ending.service, ending.upstream
    with ending.connect() as idle, ending.connect() as waiting, ending.connect() as following:
        key = ("authorization", f"Bearer {service.create_key('following')}")
        following.send(request("GET", "/live/events", [("host", service.host), key]))
        events = following.iter_body(following.read_response_head())
        assert next(events).startswith(b"retry: ")  # an open page, which would go on for ever
        upstream.choose = lambda seen: answer(200, message_json())
        idle.exchange(numbered(ending, 100))
        not_yet = Gate()
        upstream.choose = lambda seen: answer(200, message_json()).preceded_by(not_yet)
        waiting.send(numbered(ending, 101))
        not_yet.wait_reached()
        streams = open_streams(ending, 10)

        service.signal(signal.SIGTERM)
        assert idle.is_closed_by_peer()
        following.read_to_end()  # which comes while others are still in flight
        wait_until(service.refuses, "the front door to be closed")
        for _ in range(3):  # as service managers do: every process is told, and more than once
            os.killpg(service.pid, signal.SIGTERM)
        not_yet.open()
        last = waiting.read_response()
        assert (last.body, last.header("connection")) == (message_json(), "close")
        for stream in streams:
            stream.finish()
        assert service.wait() == 0

    rows = rows_by_number(service.rows(ending.slug))
    assert set(rows) == {*range(10), 100, 101}
    assert {row["outcome"] for row in rows.values()} == {"complete"}
    for stream in streams:
        assert_complete(rows[stream.number], stream)
    assert_spool_empty(service)


def test_kill_9_of_up_leaves_no_orphan_and_the_next_start_keeps_everything(
    hasty: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service = hasty.service
    streams = open_streams(hasty, 10)
    for stream in streams[:5]:
        stream.finish()
    children = [psutil.Process(pid) for pid in service.pids().values()]
    assert len(children) == 4
    service.signal(signal.SIGKILL)
    service.wait()
    wait_until(lambda: all(map(is_over, children)), "the end of the children")
    for stream in streams[5:]:
        stream.assert_cut()

    service.start()
    rows = rows_by_number(hasty.rows())
    assert set(rows) == set(range(10))
    for stream in streams[:5]:
        assert_complete(rows[stream.number], stream)
    for stream in streams[5:]:
        assert_interrupted_by_restart(rows[stream.number], stream)


def test_a_stream_that_outlasts_the_drain_is_cut_and_has_an_entry(
    hasty: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service = hasty.service
    streams = open_streams(hasty, 3)
    assert service.terminate() == 0
    for stream in streams:
        stream.assert_cut()
    rows = rows_by_number(service.rows(hasty.slug))
    assert set(rows) == {0, 1, 2}
    for stream in streams:
        assert_interrupted_by_restart(rows[stream.number], stream)
    assert_spool_empty(service)
