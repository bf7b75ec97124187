"""The same entries over both ways: from the spool, and from the spool over a Redis server.

Both begin with the same files of a spool, and end with the recorder of one machine.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from addon.head_metadata import RequestMetadata, ResponseMetadata
from addon.headers import index
from extensions.cluster import server
from extensions.cluster.shipper import Shipper
from extensions.cluster.tests.spools import make_head, receive
from store.spool.format import (
    Ending,
    Record,
    Rejection,
    RequestHead,
    ResponseHead,
    TransportOutcome,
)
from store.spool.writer import SpoolRun
from store.traces.paths import find_trace_files, trace_path
from tests.addon.endpoints import ENDPOINT
from tests.addon.spooling import ARRIVED_AT
from tests.live.service import Row
from tests.live.test_recorded import EXCHANGES, Exchange, check_entry, cut_at
from tests.metering.test_batch_results import MESSAGE, write as write_result
from tests.metering.test_object_reading import SESSION, make_event
from tests.recorded import needs_recorded
from tests.recorder.ingesters import make_ingester
from tests.redis_server import RedisServer

type Write = Callable[[SpoolRun, RequestHead], None]

WAYS = ("spool", "redis")
QUERIES = (
    "select * from usage_log",
    "select * from rejections_hourly",
    "select * from upstream_objects",
)
ANSWER = b'{"type":"message","usage":{"input_tokens":1,"output_tokens":2}}'


@pytest.fixture(scope="module")
def url(shared_redis: RedisServer) -> str:
    shared_redis.renew()
    return shared_redis.url


def record(way: str, url: str, written: Path, data: Path) -> None:
    """Record the files of a spool by one of the ways."""
    outgoing = data / "outgoing"
    shutil.copytree(written, outgoing)
    if way == "redis":
        with closing(server.connect(url)) as client:
            client.flushall()
            shipped, left = Shipper(outgoing, client, lambda: 0.0).run_round()
            assert (shipped > 0, left) == (True, 0)
            receive(data / "spool", client).close()
    else:
        outgoing.rename(data / "spool")
    ingester = make_ingester(data)
    while ingester.run_round().handled:
        pass
    ingester.close()
    assert list((data / "spool").glob("unreadable/*")) == []


def read_rows(path: Path, query: str = "select * from usage_log order by entry_id") -> list[Row]:
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(query)]


def write_exchange(run: SpoolRun, exchange: Exchange) -> None:
    """Write a recorded exchange as the proxy does."""
    sent, received = (
        index(tuple((name.encode(), value.encode()) for name, value in headers))
        for headers in (exchange.request_headers, exchange.response_headers)
    )
    head = RequestMetadata(b"key", "anthropic").make_head(
        replace(ENDPOINT, slug=exchange.slug), ARRIVED_AT, sent, exchange.request_body,
        exchange.target, None, is_kept=True,
    )  # fmt: skip
    file = run.create(head, exchange.request_body)
    file.write_response_head(
        ResponseMetadata("anthropic").make_head(exchange.status, received), 1.0
    )
    for chunk in cut_at(exchange.wire_body, exchange.borders):
        file.write_chunk(chunk, 2.0)
    file.finish(Ending(outcome="complete", response_bytes=len(exchange.wire_body)), 2.0)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a spool with all recorded exchanges."""
    root = tmp_path_factory.mktemp("recorded") / "spool"
    run = SpoolRun(root, reserve_bytes=0)
    for exchange in EXCHANGES:
        if exchange.expected["logged"]:
            write_exchange(run, exchange)
    run.close()
    return root


@pytest.mark.slow
@needs_recorded
@pytest.mark.parametrize("way", WAYS)
def test_what_is_logged_is_what_was_recorded(
    way: str, url: str, written: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    record(way, url, written, tmp_path)
    rows = {row["slug"]: row for row in read_rows(trace_path(tmp_path, ENDPOINT.organization_id))}
    assert len(rows) > 100
    for exchange in EXCHANGES:
        with subtests.test(exchange.slug):
            found = [rows[exchange.slug]] if exchange.slug in rows else []
            check_entry(exchange, found)


def spool(run: SpoolRun, head: RequestHead, ending: Ending | None, status: int = 200) -> None:
    """Write a call with an ending, or without one as a proxy does that is killed."""
    file = run.create(head, b"body" if head.request_body == "whole" else b"")
    file.write_response_head(ResponseHead(status_code=status, content_type="application/json"), 1.0)
    file.write_chunk(ANSWER, 2.0)
    if ending is None:
        file.close()
    else:
        file.finish(ending, 3.0)


def write_ending(outcome: TransportOutcome | None, **changes: Any) -> Write:
    ending = None if outcome is None else Ending(outcome=outcome, duration_ms=3.0)
    return lambda run, head: spool(run, replace(head, **changes), ending)


def write_error(run: SpoolRun, head: RequestHead) -> None:
    spool(run, head, Ending(outcome="complete", duration_ms=3.0), 529)


def write_request_alone(run: SpoolRun, head: RequestHead) -> None:
    run.create(head, b"body").close()


def write_rejections(run: SpoolRun, head: RequestHead) -> None:
    names = {"organization_id": head.organization_id, "proxy_endpoint_id": "endpoint"}
    run.write_rejections(
        [Rejection(**names, slug="default", bucket="messages", hour="2026-01-01T00", count=3)]
    )


def write_report(record: Record, body: bytes, path: str) -> Write:
    """Write a response that reports what other calls have used."""

    def write(run: SpoolRun, head: RequestHead) -> None:
        file = run.create(replace(head, record=record, path_query=path), b"")
        file.write_response_head(ResponseHead(status_code=200), 1.0)
        file.write_chunk(body, 2.0)
        file.finish(Ending(outcome="complete", duration_ms=3.0), 3.0)

    return write


# What is written, and the outcome of the entry that it becomes.
KINDS: Mapping[str, tuple[Write, str | None]] = {
    "whole": (write_ending("complete"), "complete"),
    "of-a-run": (write_ending("complete", run_id="nightly"), "complete"),
    "metadata": (
        write_ending("complete", metadata_only=True, request_body="metadata_only"),
        "complete",
    ),
    "refused": (write_error, "upstream_error"),
    "cut-by-client": (write_ending("client_disconnected"), "client_disconnected"),
    "cut-by-upstream": (write_ending("upstream_interrupted"), "upstream_interrupted"),
    "killed": (write_ending(None), "proxy_restarted"),
    "killed-early": (write_request_alone, "proxy_restarted"),
    "rejected": (write_rejections, None),
    "batch": (
        write_report(
            "batch_results",
            write_result({"type": "succeeded", "message": MESSAGE}),
            "/v1/messages/batches/b/results",
        ),
        "complete",
    ),
    "session": (
        write_report("session", json.dumps(SESSION).encode(), "/v1/sessions/sesn_1"),
        None,
    ),
    "session-events": (
        write_report(
            "session_events",
            json.dumps({"data": [make_event("2026-01-01T00:00:00Z", 3)]}).encode(),
            "/v1/sessions/sesn_1/events",
        ),
        None,
    ),
}


@pytest.mark.slow
def test_every_kind_of_call_is_the_same_entry(url: str, tmp_path: Path) -> None:
    run = SpoolRun(tmp_path / "written", reserve_bytes=0)
    for kind, (write, _) in KINDS.items():
        write(run, replace(make_head(f"entry-{kind}"), organization_id=kind))
    run.close()
    found = {}
    for way in WAYS:
        record(way, url, tmp_path / "written", tmp_path / way)
        found[way] = {
            path.parent.name: {query: read_rows(path, query) for query in QUERIES}
            for path in find_trace_files(tmp_path / way)
        }
    assert found["redis"] == found["spool"]
    assert found["redis"].keys() == KINDS.keys()
    for kind, (_, outcome) in KINDS.items():
        rows, rejections, objects = found["redis"][kind].values()
        assert [row["outcome"] for row in rows] == ([] if outcome is None else [outcome])
        assert [each["count"] for each in rejections] == ([3] if kind == "rejected" else [])
        ids = [each["object_id"] for each in objects]
        assert ids == (["sesn_1"] if kind.startswith("session") else [])
