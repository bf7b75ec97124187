"""The figures of ``/metrics``, and their readers."""

import json
import os
import re
import time
from datetime import timedelta

import pytest

from extensions.otel.positions import open_positions
from manage.metrics import figures
from manage.metrics.exposition import render
from manage.metrics.processes import Process
from metering.rate_limits import RateLimits
from runtime import clock, worker_board
from runtime.extension_values import Gauge, Health
from runtime.heartbeat import Heartbeat
from runtime.hooks import hookimpl
from runtime.local_requests import is_local_request
from runtime.node import Node
from runtime.settings import Settings
from runtime.worker_board import Shared, WorkerBoard
from store.following.positions import Position
from store.spool.writer import SpoolRun
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests import ROOT
from tests.extensions import registered
from tests.manage.metrics.conftest import TOKEN, find, parse
from tests.store.traffic import make_entry

CALL = {"model": "claude-opus-5-5", "outcome": "complete"}
OF_PROXY = [
    ("x-forwarded-for", "127.0.0.1"),
    ("X-Forwarded-Proto", "https"),
    ("forwarded", "for=127.0.0.1"),
    ("via", "1.1 proxy"),
    ("x-real-ip", "127.0.0.1"),
    ("cf-connecting-ip", "127.0.0.1"),
]


def endpoints(samples):
    return {dict(labels)["endpoint"] for name, labels in samples if name == "taximeter_calls_total"}


# -- who sees what ------------------------------------------------------------------------------


def test_a_program_on_this_machine_sees_all_organisations(scrape):
    assert endpoints(scrape()) == {"ours", "theirs"}


def test_a_key_sees_its_organisation_alone_also_on_this_machine(scrape, site):
    samples = scrape(authorization=f"Bearer {site.our_key}")
    assert endpoints(samples) == {"ours"}
    assert "theirs" not in str(samples)
    assert not [name for name, _ in samples if name.startswith("taximeter_recorder")]


def test_the_token_sees_all_organisations_from_everywhere(client):
    response = client.get(
        "https://localhost/metrics",
        headers={
            "authorization": f"Bearer {TOKEN}",
            "x-taximeter-client": "203.0.113.9",
            "x-forwarded-for": "203.0.113.9",
        },
    )
    assert endpoints(parse(response.text)) == {"ours", "theirs"}


@pytest.mark.parametrize("header", OF_PROXY, ids=[name for name, _ in OF_PROXY])
def test_a_request_that_was_forwarded_is_not_local(client, header):
    response = client.get("/metrics", headers=dict([header]))
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert "ours" not in response.text


@pytest.mark.parametrize("address", ["203.0.113.9", "10.0.0.1", "::ffff:203.0.113.9", "x", ""])
def test_a_client_elsewhere_needs_a_key(client, address):
    from_there = {"x-taximeter-client": f"a-mark-of-the-front-door {address}"}
    assert client.get("/metrics", headers=from_there).status_code == 401


@pytest.mark.parametrize("settings_given", [{"TAXIMETER_BASE_URL": "https://meter.example.org"}])
def test_where_people_use_another_address_a_local_request_may_be_a_silent_proxys(client):
    """nginx, for one, adds no header and names the loopback address as the host unless told otherwise."""
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).is_success


def test_a_name_that_is_not_this_machines_is_not_local(tmp_path):
    settings = Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)})
    assert is_local_request(settings, "127.0.0.1", {"host": "localhost:8080"})
    assert is_local_request(settings, "::1", {"host": "[::1]:8080"})
    assert not is_local_request(settings, "127.0.0.1", {"host": "meter.example.org"})
    assert not is_local_request(settings, "127.0.0.1", {})


@pytest.mark.parametrize(
    "authorization", ["", "Basic YTpi", "Bearer sk_unknown", f"Bearer {TOKEN}x", "Bearer é"]
)
def test_a_wrong_key_is_refused_also_on_this_machine(client, authorization):
    response = client.get("/metrics", headers={"authorization": authorization.encode()})
    assert response.status_code == 401
    assert "taximeter_" not in response.text


def test_unknown_keys_without_end_have_to_wait_but_a_valid_one_has_not(client, site):
    statuses = {
        client.get("/metrics", headers={"authorization": f"Bearer sk_{i}"}).status_code
        for i in range(40)
    }
    assert statuses == {401, 429}
    assert client.get("/metrics", headers={"authorization": f"Bearer {site.our_key}"}).is_success


# -- the figures --------------------------------------------------------------------------------


def test_counters_have_the_calls_tokens_and_cost(scrape):
    samples = scrape()
    ours = CALL | {"endpoint": "ours"}
    assert find(samples, "taximeter_calls_total", **ours) == 1
    assert find(samples, "taximeter_cost_dollars_total", **ours) == 1.5
    kinds = {"uncached_input": 10, "output": 20, "cache_write": 30, "cache_read": 40}
    for kind, count in kinds.items():
        assert find(samples, "taximeter_tokens_total", **ours, kind=kind) == count


def test_a_model_with_odd_characters_is_read_back_as_it_is(scrape):
    labels = {"endpoint": "ours", "model": 'say "hi"\n\\', "outcome": "upstream_error"}
    assert find(scrape(), "taximeter_calls_total", **labels) == 1


@pytest.mark.parametrize(
    ("name", "below", "bound", "seconds"),
    [
        ("first_byte", "0.25", "0.5", 0.3),
        ("duration", "1.0", "2.5", 2.0),
        ("proxy_overhead", "0.001", "0.0025", 0.0015),
    ],
)
def test_histograms_count_upwards_in_seconds(scrape, name, below, bound, seconds):
    samples = scrape()
    buckets = f"taximeter_{name}_seconds_bucket"
    before = find(samples, buckets, endpoint="ours", le=below)
    assert find(samples, buckets, endpoint="ours", le=bound) == before + 1
    count = find(samples, f"taximeter_{name}_seconds_count", endpoint="ours")
    assert find(samples, buckets, endpoint="ours", le="+Inf") == count
    assert find(samples, f"taximeter_{name}_seconds_sum", endpoint="ours") >= seconds


def test_counters_only_grow_over_restarts_removed_calls_and_new_ones(scrape, site):
    before = scrape()
    with TraceDatabase(trace_path(site.data_dir, site.ours.organization_id)) as traces:
        traces.prune(before="2030-01-01T00:00:00.000Z")
        traces.insert([make_entry(slug="ours", model="claude-opus-5-5")])
    after = scrape()
    counted = [key for key in before if key[0].endswith(("_total", "_bucket", "_count", "_sum"))]
    assert [key for key in counted if after[key] < before[key]] == []
    calls = ("taximeter_calls_total", frozenset((CALL | {"endpoint": "ours"}).items()))
    assert after[calls] == before[calls] + 1


def test_the_spool_is_counted_for_its_organisation(scrape, site):
    run = site.data_dir / "spool" / "a-run"
    run.mkdir(parents=True)
    for number, owner in enumerate((site.ours, site.ours, site.theirs)):
        file = run / f"{number}~{owner.organization_id}.done"
        file.touch()
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 100 * (number + 1)))
    ours = scrape(authorization=f"Bearer {site.our_key}")
    assert find(ours, "taximeter_spool_files") == 2
    assert 200 <= find(ours, "taximeter_spool_age_seconds") < 290
    everybody = scrape()
    assert find(everybody, "taximeter_spool_files") == 3
    assert 300 <= find(everybody, "taximeter_spool_age_seconds") < 390
    assert find(everybody, "taximeter_in_flight") == 0


@pytest.mark.parametrize(
    ("settings_given", "folder"),
    [({}, "spool"), ({"TAXIMETER_CLUSTER": "redis://localhost"}, "outgoing")],
)
def test_a_call_in_flight_is_counted_until_it_ends(scrape, site, folder):
    run = SpoolRun(site.data_dir / folder)
    (run.path / f"1~{site.theirs.organization_id}.open").touch()
    assert find(scrape(), "taximeter_in_flight") == 1
    assert find(scrape(authorization=f"Bearer {site.our_key}"), "taximeter_in_flight") == 0


def test_a_recorder_that_is_away_is_0(scrape, site):
    assert find(scrape(), "taximeter_recorder_up") == 0
    Heartbeat(pid=os.getpid(), beat_s=time.monotonic()).write(site.data_dir)
    assert find(scrape(), "taximeter_recorder_up") == 1


def test_a_database_that_cannot_be_read_takes_nothing_from_the_others(scrape, site):
    before = scrape()
    trace_path(site.data_dir, site.theirs.organization_id).write_bytes(b"no database" * 100)
    after = scrape()
    assert endpoints(after) == {"ours"}
    assert find(after, "taximeter_unreadable_databases") == 1
    labels = CALL | {"endpoint": "ours"}
    assert find(after, "taximeter_calls_total", **labels) == find(
        before, "taximeter_calls_total", **labels
    )


def test_openmetrics_is_written_for_who_accepts_it(client):
    response = client.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")
    assert client.get("/metrics").headers["content-type"].startswith("text/plain")


def test_what_the_proxy_refused_is_counted_by_reason(site):
    board_fd = worker_board.create(1)
    WorkerBoard(board_fd, 0).add(Shared.CONNECTIONS_REFUSED, 3)
    WorkerBoard(board_fd, 1).add(Shared.SLOW_HEADS_REFUSED, 1)
    reader = figures.FigureReader(
        site.data_dir, site.data_dir / "spool", site.data_dir / "spool", board_fd
    )
    samples = parse(render(reader.read_all(), [], "1.0", "")[0].decode())
    counts = {
        reason: find(samples, "taximeter_refused_total", reason=reason)
        for reason in ("connections", "large_head", "slow_head")
    }
    assert counts == {"connections": 3, "large_head": 0, "slow_head": 1}


@pytest.fixture
def service_samples(site):
    """The samples of the operator of one of several copies, with processes and a collector."""
    with open_positions(site.data_dir) as positions:
        positions.write("http://c:1/v1/traces", "a", Position(exported=1))
    reader = figures.FigureReader(
        site.data_dir,
        site.data_dir / "spool",
        site.data_dir / "spool",
        worker_board.create(1),
        node=Node(copy="main"),
    )
    processes = [Process("web", cpu_s=1.5, resident_bytes=1000, descriptors=10)]
    return parse(render(reader.read_all(), processes, "1.0", "")[0].decode())


# -- Grafana and the documentation ----------------------------------------------------------------


def test_every_query_of_the_dashboard_is_of_metrics_and_labels_that_exist(service_samples):
    labels: dict[str, set[str]] = {}
    for name, given in service_samples:
        labels.setdefault(name, set()).update(name for name, _ in given)
    dashboard = json.loads((ROOT / "docs" / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [
        each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"
    ]
    assert len(queries) > 15
    for query in queries:
        names = re.findall(r"\btaximeter_\w+", query)
        assert names, query
        known = set.intersection(*(labels[name] for name in names))
        used = [*re.findall(r"(\w+)\s*(?:!=|=~|!~|=)\s*\"", query)]
        for group in re.findall(r"by \(([^)]*)\)", query):
            used += group.split(", ")
        used += re.findall(r"label_values\(\w+, (\w+)\)", query)
        assert set(used) <= known, query
    positions = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(positions)) == len(positions)


def test_the_page_on_metrics_names_every_metric(service_samples):
    text = (ROOT / "docs" / "metrics.md").read_text()
    ending = re.compile(r"_(bucket|count|sum)$")
    names = {ending.sub("", name) for name, _ in service_samples}
    assert [name for name in sorted(names) if f"`{name}" not in text] == []


def test_the_dashboard_adds_up_the_calls_of_one_copy_alone(service_samples):
    """Each copy of a cluster has every call. On one machine there is no such label, and all is matched."""
    of_copies = {
        name.removesuffix(ending)
        for name, labels in service_samples
        if "copy" in dict(labels)
        for ending in ("_total", "_bucket")
    }
    dashboard = json.loads((ROOT / "docs" / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    found = [
        (name, labels)
        for query in queries
        for name, labels in re.findall(r"(taximeter_\w+?)(?:_total|_bucket)?\b(\{[^}]*\})?", query)
        if name in of_copies
    ]
    assert len(found) > 10
    assert [name for name, labels in found if '{copy=~"|$copy"' not in labels] == []


def test_counters_of_a_copy_say_of_which_one_they_are(site):
    spool = site.data_dir / "spool"
    reader = figures.FigureReader(site.data_dir, spool, spool, node=Node(copy="second"))
    for read in (reader.read_all(), reader.read_organization(site.ours.organization_id)):
        samples = parse(render(read, [], "1", "text/plain")[0].decode())
        assert find(samples, "taximeter_calls_total", **CALL, endpoint="ours", copy="second") == 1
        assert {
            dict(labels).get("copy")
            for name, labels in samples
            if name.startswith(("taximeter_calls", "taximeter_first_byte"))
        } == {"second"}


class WithGauge:
    """An extension with a figure."""

    @hookimpl
    def health(self):
        return Health(gauges=[Gauge("taximeter_backlog_files", "Files that wait.", 3)])


def test_figures_of_extensions_are_for_the_operator_alone(scrape, site):
    with registered(WithGauge()):
        assert find(scrape(), "taximeter_backlog_files") == 3
        assert "backlog" not in str(scrape(authorization=f"Bearer {site.our_key}"))


def test_windows_of_subscriptions_are_gauges_of_so_many_accounts_at_most(scrape, site, monkeypatch):
    monkeypatch.setattr(figures, "MAX_ACCOUNTS", 2)
    now = clock.now()
    with TraceDatabase(trace_path(site.data_dir, site.ours.organization_id)) as traces:
        for number in range(3):
            reset = now + timedelta(hours=3) if number else now - timedelta(minutes=1)
            limits = RateLimits(
                unified_status="allowed",
                unified_5h_utilization=0.9,
                unified_5h_reset_at=clock.format_seconds(reset),
                account=f"{2 - number}" * 32,
            )
            at = now - timedelta(minutes=30 - number if number else 5)
            call = make_entry(created_at=clock.format_ms(at), ttfb_ms=0.0, rate_limits=limits)
            traces.insert([call])
    samples = scrape()
    of = {name for name, _ in samples if name.startswith("taximeter_limit_")}
    assert of == {
        f"taximeter_limit_{name}"
        for name in (
            "used_ratio",
            "reset_timestamp_seconds",
            "used_up_timestamp_seconds",
            "read_timestamp_seconds",
        )
    }
    read = [dict(key) for name, key in samples if name == "taximeter_limit_read_timestamp_seconds"]
    assert {each["account"][0] for each in read} == {"2", "0"}
    used = {key: value for (name, key), value in samples.items() if name.endswith("used_ratio")}
    ((key, value),) = used.items()  # the other one was reset since
    assert (dict(key), value) == ({"account": "0" * 32, "window": "5h"}, 0.9)
