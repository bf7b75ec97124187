import json
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from addon.errors import Refusal
from addon.health import HealthChecks, is_loopback_name
from addon.spool_troubles import SpoolTroubles
from runtime.extension_values import Gauge, Health
from runtime.hooks import hookimpl
from runtime.node import Node
from tests.extensions import registered


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8080", "127.0.0.1:80", "127.1.2.3", "[::1]", "[::1]:8080"]
)
def test_a_loopback_name_is_recognised(host):
    assert is_loopback_name(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "meter.example",
        "localhost.example",
        "10.0.0.1",
        "[::1",
        "x@localhost",
        "localhost/x",
    ],
)
def test_any_other_host_is_none(host):
    assert not is_loopback_name(host)


@pytest.fixture
def checks(settings, config):
    return HealthChecks(settings, config, SpoolTroubles(), knows_slugs=lambda: True)


def test_livez_is_well_while_the_proxy_serves(checks):
    response = checks.respond_live()
    assert (response.status_code, response.content) == (200, b'{"status":"ok"}')
    assert response.headers["cache-control"] == "no-store"


def test_livez_fails_while_no_slug_is_known(settings, config):
    checks = HealthChecks(settings, config, SpoolTroubles(), knows_slugs=lambda: False)
    response = checks.respond_live()
    assert response.status_code == 503
    assert b"has not got the endpoints" in (response.content or b"")


def test_a_body_is_not_waited_for(checks, make_flow):
    refusal = checks.respond(make_flow("GET", "/healthz", [("content-length", "5")]).request)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unexpected_body"


async def test_healthz_names_all_that_is_wrong(settings, config, make_flow):
    troubles = SpoolTroubles(current="cannot write to the spool: No space left on device")
    checks = HealthChecks(
        settings, replace(config, web_port=None), troubles, knows_slugs=lambda: True
    )
    response = checks.respond(make_flow("GET", "/healthz").request)
    assert not isinstance(response, Refusal)
    found = await response
    document = json.loads(found.content or b"")
    assert (found.status_code, document["status"]) == (503, "failing")
    assert document["reasons"] == [
        "the recorder is not running; calls wait in the spool",
        "the web process does not respond",
        "cannot write to the spool: No space left on device",
    ]


class Failing:
    """An extension that is not well."""

    @hookimpl
    def health(self):
        return Health(
            reasons=["its server is away"],
            document={"backlog": {"files": 3}},
            gauges=[Gauge("taximeter_backlog_files", "Files that wait.", 3)],
        )


async def test_healthz_says_what_is_wrong_with_an_extension(checks, make_flow):
    with registered(Failing()):
        found = await checks.respond(make_flow("GET", "/healthz").request)
    document = json.loads(found.content or b"")
    assert (found.status_code, document["backlog"]) == (503, {"files": 3})
    assert "its server is away" in document["reasons"]


async def test_a_node_without_pages_tells_prometheus_what_it_says_on_healthz(
    settings, config, make_flow
):
    proxy = replace(settings, node=Node(parts=frozenset({"proxy"})))
    checks = HealthChecks(proxy, config, SpoolTroubles(), knows_slugs=lambda: True)
    assert checks.has_metrics
    refusal = checks.respond_with_metrics(
        make_flow("GET", "/metrics", [("content-length", "5")]).request
    )
    assert isinstance(refusal, Refusal)
    waiting = checks.respond_with_metrics(make_flow("GET", "/metrics").request)
    assert not isinstance(waiting, Refusal)
    with registered(Failing()):
        response = await waiting
    assert response.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(response.text or "")
    samples = [sample for family in families for sample in family.samples]
    assert {(each.name, each.labels.get("kind")): each.value for each in samples} == {
        ("taximeter_healthy", None): 0,
        ("taximeter_not_kept_total", "calls"): 0,
        ("taximeter_not_kept_total", "responses"): 0,
        ("taximeter_not_kept_total", "request_bodies"): 0,
        ("taximeter_backlog_files", None): 3,
    }
