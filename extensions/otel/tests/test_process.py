"""The process itself, with a collector that is made of OpenTelemetry's types."""

import os
import signal
import subprocess
import sys
from collections import Counter
from importlib import import_module

import pytest

from extensions.otel import FILE
from extensions.otel.positions import begin
from extensions.otel.tests.collector import Collector, read_attributes
from runtime.installing import command_for_extra
from store.following.positions import read_totals
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests import ROOT
from tests.store.traffic import make_entry
from tests.upstream import wait_until

SECRET = "a-secret-of-the-collector"


def test_without_its_libraries_it_ends_with_the_command_that_installs_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    monkeypatch.delitem(sys.modules, "extensions.otel.__main__", raising=False)
    with pytest.raises(SystemExit) as ended:
        import_module("extensions.otel.__main__")
    assert str(ended.value.code).endswith(command_for_extra("otel"))


@pytest.fixture
def collector():
    collector = Collector()
    with collector.serving():
        yield collector


@pytest.fixture
def start(tmp_path, collector):
    """Starts the process; it has ended when the test has."""
    processes = []

    def start(**settings):
        environ = {name: text for name, text in os.environ.items() if "proxy" not in name.lower()}
        environ |= {
            "PYTHONPATH": str(ROOT),
            "TAXIMETER_DATA_DIR": str(tmp_path),
            "TAXIMETER_OTEL": "on",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={SECRET}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "60",  # an acknowledgement in vain would be one too many
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            **settings,
        }
        command = [sys.executable, "-m", "extensions.otel"]
        processes.append(subprocess.Popen(command, env=environ, stderr=subprocess.PIPE))  # noqa: S603 - our own program
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def traces(tmp_path):
    with TraceDatabase(trace_path(tmp_path, "org_1")) as traces:
        yield traces


@pytest.mark.live
def test_exactly_the_finished_calls_arrive_over_kills_and_restarts(
    tmp_path, collector, start, traces
):
    """A batch that was not acknowledged is sent again, with the ids that it had, unless it is refused."""
    ids: list[str] = []

    def record(count):
        entries = [make_entry() for _ in range(count)]
        traces.insert(entries)
        ids.extend(entry.entry_id for entry in entries)

    def kill_unanswered(_spans):
        first.kill()
        first.wait()
        raise ConnectionError

    begin(tmp_path, f"{collector.url}/v1/traces")  # as the supervisor does
    record(250)
    first = start()
    collector.wait_for(lambda: set(ids) <= set(collector.ids()))
    collector.on_request = kill_unanswered
    record(150)
    first.wait()
    collector.on_request = lambda _spans: 200
    second = start()
    collector.wait_for(lambda: set(ids) <= set(collector.ids()))
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    record(5)
    bad, missing_key = ids[-3], [True]

    def refuse_one(spans):
        if missing_key:  # which says nothing about the calls
            missing_key.clear()
            return 401
        return (
            400 if bad in {read_attributes(span)["taximeter.entry_id"] for span in spans} else 200
        )

    collector.on_request = refuse_one
    start()
    ids.remove(bad)
    collector.wait_for(lambda: set(ids) <= set(collector.ids()))
    counts = Counter(collector.ids())
    assert set(counts) == set(ids)
    assert set(counts.values()) == {1}, "each was acknowledged once"
    wait_until(
        lambda: (
            [(each.exported, each.dropped) for each in read_totals(tmp_path / FILE)]
            == [(len(ids), 1)]
        ),
        "the count of the call that was refused",
    )
    sent = {
        read_attributes(span)["taximeter.entry_id"]: span.span_id for span in collector.received
    }
    for span in collector.received:
        assert sent[read_attributes(span)["taximeter.entry_id"]] == span.span_id
    assert len(collector.received) > len(collector.acknowledged)
    assert {headers["x-key"] for headers in collector.headers} == {SECRET}
    assert {each["deployment.environment.name"] for each in collector.resources} == {"test"}
    assert {each["service.name"] for each in collector.resources} == {"taximeter"}
