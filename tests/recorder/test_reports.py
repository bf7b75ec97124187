"""Responses that report usage: results of batches, managed sessions and dreams."""

import gzip
import json
from contextlib import suppress

import pytest

from store.spool import reader
from store.spool.format import Ending, ResponseHead
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.metering.test_batch_results import ERROR, MESSAGE, write
from tests.metering.test_object_reading import DREAM, SESSION, change, make_event
from tests.recorder.ingesters import make_ingester
from tests.store.spool.heads import make_head

RESULTS = "/v1/messages/batches/msgbatch_1/results"
LINES = b"\n".join(
    (
        write({"type": "succeeded", "message": MESSAGE}, "one"),
        write({"type": "succeeded", "message": MESSAGE | {"id": "msg_2"}}, "two"),
        write({"type": "errored", "error": ERROR}, "three"),
        write({"type": "expired"}, "four"),
        b"",
    )
)


@pytest.fixture
def told():
    return []


@pytest.fixture
def record(tmp_path, run, told):
    """Records responses, each of which is spooled as the proxy does it; returns rows by SQL."""
    ingester = make_ingester(tmp_path, on_entries=told.extend)

    def record(kind, body, path="/v1/sessions/sesn_1", encoding=None, ending=None, **head):
        fields = {
            "entry_id": f"report-{len(list((tmp_path / 'spool').glob('*/*')))}",
            "created_at": "2026-11-20T10:11:12.131Z",
            "organization_id": "a",
            "request_bytes": None,
            "request_body": "omitted",
            "path_query": path,
            "credential_kind": "api_key",
            "credential_hmac": "abc",
            "user_agent": "curl/8",
            "record": kind,
        }
        file = run.create(make_head(**fields | head), b"")
        assert list(reader.find_in_flight(tmp_path / "spool")) == [], "no call is in flight"
        file.write_response_head(ResponseHead(status_code=200, content_encoding=encoding), 1.0)
        file.write_chunk(body, 2.0)
        file.finish(ending or Ending(outcome="complete"), 3.0)
        ingester.run_round()
        assert list(reader.find_waiting(tmp_path / "spool")) == []

    yield record
    ingester.close()


@pytest.fixture
def read(tmp_path):
    def read(sql):
        with TraceDatabase(trace_path(tmp_path, "a")) as traces:
            return traces.connection.execute(sql).fetchall()

    return read


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_each_result_that_has_run_is_an_entry_once(record, read, told, encoding):
    body = LINES if encoding is None else gzip.compress(LINES)
    for _ in range(2):
        record("batch_results", body, RESULTS, encoding)
    rows = read(
        "select entry_id, product, outcome, billing, client, credential_hmac from usage_log"
    )
    assert rows == [
        ("msgbatch_1:one", "batch", "complete", "api_key", "curl/8", "abc"),
        ("msgbatch_1:two", "batch", "complete", "api_key", "curl/8", "abc"),
        ("msgbatch_1:three", "batch", "upstream_error", "api_key", "curl/8", "abc"),
    ]
    (cents,) = read("select sum(cost_cents) from usage_hourly")
    assert cents == (2 * 1.34375,)
    assert read("select count(distinct response_body) from usage_log") == [(3,)]
    assert len(told) == 3


def test_results_that_pass_are_paid_by_the_credential_that_read_them(record, read):
    """No result says who pays, and the header of a user profile alone only attributes."""
    record("batch_results", LINES, RESULTS, user_profile_id="uprof_1")
    assert read("select distinct billing, user_profile_id from usage") == [("api_key", "uprof_1")]


def test_of_results_that_were_cut_those_that_came_are_entries(record, read):
    cut = LINES[: LINES.index(b"three") + 20]
    record("batch_results", cut, RESULTS, ending=Ending(outcome="client_disconnected"))
    assert read("select count(*) from usage") == [(2,)]
    record("batch_results", LINES, RESULTS)
    assert read("select count(*) from usage") == [(3,)]


def test_no_text_of_results_is_kept_where_none_is(record, read):
    record("batch_results", LINES, RESULTS, metadata_only=True)
    rows = read("select response_body, body_notes, message_id from usage_log order by message_id")
    note = "response not kept: metadata only"
    assert rows == [(None, note, None), (None, note, "msg_1"), (None, note, "msg_2")]


def test_an_object_is_one_row_with_what_came_last(record, read):
    record("session", json.dumps(SESSION).encode())
    later = change(SESSION, {"output_tokens": 30_000}, status="terminated")
    record("session", json.dumps(later).encode(), created_at="2026-11-20T12:00:00.000Z")
    record("session", json.dumps(SESSION).encode(), created_at="2026-11-20T11:00:00.000Z")
    record("dream", json.dumps(DREAM).encode())
    sql = (
        "select object_id, kind, status, output_tokens, round(cost_cents, 6), list_cost_cents,"
        " read_at, slug from upstream_objects order by 1"
    )
    assert read(sql) == [
        ("drm_1", "dream", "completed", 100, 0.75, None, "2026-11-20T10:11:12.131Z", "default"),
        (
            *("sesn_1", "session", "terminated", 30_000, 215.0, 190.0),
            *("2026-11-20T12:00:00.000Z", "default"),
        ),
    ]
    assert read("select count(*) from usage") == [(0,)]


@pytest.mark.parametrize("knows_session", [True, False])
def test_events_of_a_session_bring_its_counts_and_leave_the_rest(record, read, knows_session):
    events = [make_event("2026-11-20T11:00:00Z", 1800), make_event("2026-11-20T10:30:00Z", 5)]
    path = "/v1/sessions/sesn_1/events?limit=2"
    if knows_session:
        record("session", json.dumps(SESSION).encode())
    record("session_events", json.dumps({"data": events}).encode(), path)
    record("session_events", json.dumps({"data": events[1:]}).encode(), path)
    stream = b"event: x\ndata: %b\n\n" % json.dumps(events[1]).encode()
    record("session_events", stream, "/v1/sessions/sesn_1/events/stream", user_agent=None)
    rows = read(
        "select object_id, kind, model, active_seconds, read_at, round(cost_cents, 6),"
        " list_cost_cents from upstream_objects"
    )
    # A session costs 190 cents with 15 minutes, and two more with 30.
    model, cents = ("claude-opus-5", 192.0) if knows_session else (None, None)
    assert rows == [
        ("sesn_1", "session", model, 1800, "2026-11-20T11:00:00.000Z", cents, 190.0),
    ]


@pytest.mark.parametrize("kind", ["batch_results", "session", "session_events", "dream"])
def test_what_reports_nothing_is_gone(record, tmp_path, kind):
    for body in (b"", b"no JSON", b"[]", b"{}", b"\xff\n\xff"):
        record(kind, body, RESULTS)
    with suppress(FileNotFoundError):
        assert list((tmp_path / "traces").iterdir()) == []
