"""Responses of the API that are made while they are sent."""

import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from manage.api import streaming
from store.traces.calls.call_reader import CallReader
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry

BODY = 'é\1"\\' * 400_000


@pytest.fixture
def ask(ann, traces_path):
    with TraceDatabase(traces_path) as traces:
        traces.insert([make_entry(request_body=b"{}", response_body=BODY.encode())])
    return lambda target, method="GET": ann(method, target)


def test_a_large_body_comes_while_it_is_read(ask):
    response = ask("/calls?bodies=yes")
    assert response.status_code == 200
    assert "content-length" not in response.headers
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["content-type"] == "application/json"
    document = response.json()
    assert list(document) == ["columns", "items", "nextCursor", "hasMore"]
    (item,) = document["items"]
    assert (item["request_body"], item["response_body"]) == ("{}", BODY)
    assert (document["nextCursor"], document["hasMore"]) == (None, False)


def test_a_small_response_has_its_length(ask):
    response = ask("/calls")
    assert int(response.headers["content-length"]) == len(response.content)


def test_head_of_a_large_response_has_no_body(ask):
    response = ask("/calls?bodies=yes", "HEAD")
    assert (response.status_code, response.content) == (200, b"")


@pytest.fixture
def failing(monkeypatch):
    """Let bodies be read up to so many chunks."""

    def fail_after(count):
        def iter_body(self, usage_id, side):
            for number, chunk in enumerate(iter_chunks(self, usage_id, side)):
                if number == count:
                    raise sqlite3.OperationalError("no more")
                yield chunk

        iter_chunks = CallReader.iter_body
        monkeypatch.setattr(CallReader, "iter_body", iter_body)

    return fail_after


def test_what_cannot_be_read_at_its_beginning_is_503(ask, failing):
    failing(0)
    response = ask("/calls?bodies=yes")
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "unavailable"


def test_what_cannot_be_read_to_its_end_is_cut(ask, failing, caplog):
    failing(4)
    response = ask("/calls?bodies=yes")
    assert response.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        json.loads(response.content)
    assert "was cut: no more" in caplog.text


@pytest.mark.slow
def test_the_long_responses_of_an_organization_are_made_in_turns(ask, monkeypatch):
    inside, peak, count = 0, 0, threading.Lock()
    read = streaming.Parts.read

    def read_counted(self):
        nonlocal inside, peak
        with count:
            inside += 1
            peak = max(peak, inside)
        try:
            return read(self)
        finally:
            with count:
                inside -= 1

    monkeypatch.setattr(streaming.Parts, "read", read_counted)
    with ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(lambda _: ask("/calls?bodies=yes"), range(8)))
    assert {each.json()["items"][0]["response_body"] == BODY for each in responses} == {True}
    assert peak == 1


def test_parts_are_joined_up_to_a_size(monkeypatch):
    monkeypatch.setattr(streaming, "WHOLE_BYTES", 4)
    closed = []

    def make():
        try:
            yield from (b"12", b"3", b"45", b"6", b"7")
        finally:
            closed.append(True)

    parts = streaming.Parts(make())
    assert [parts.read(), parts.read(), parts.read()] == [b"12345", b"67", b""]
    assert closed == [True]
    parts = streaming.Parts(make())
    parts.read()
    parts.close()
    assert closed == [True, True]


def test_closing_waits_for_no_thread_that_reads():
    reading, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def make():
        try:
            reading.set()
            go_on.wait()
            yield b"1"
        finally:
            closed.set()

    parts = streaming.Parts(make())
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(parts.read)
        reading.wait()
        parts.close()
        assert not closed.is_set()
        go_on.set()
        read.result()
    assert closed.is_set()


def test_a_response_for_which_memory_ends_is_cut(ask, monkeypatch, caplog):
    def read(_parts):
        raise MemoryError

    encoded = streaming.Encoded.begin

    def begin(parts):
        made = encoded(parts)
        monkeypatch.setattr(streaming.Parts, "read", read)
        return made

    monkeypatch.setattr(streaming.Encoded, "begin", begin)
    response = ask("/calls?bodies=yes")
    assert response.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        json.loads(response.content)
    assert "was cut: there is not enough memory" in caplog.text
