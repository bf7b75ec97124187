"""``taximeter limits``."""

import json
from datetime import timedelta

from click.testing import CliRunner

from manage.cli.main import cli
from metering.rate_limits import RateLimits
from runtime import clock
from tests.store.traffic import make_entry
from tests.upstream import Upstream, answer


def record(traces, account, used, *, resets_in, minutes_ago=20.0):
    now = clock.now()
    limits = RateLimits(
        unified_status="allowed",
        unified_5h_utilization=used,
        unified_5h_reset_at=clock.format_seconds(now + resets_in),
        unified_5h_status="allowed_warning",
        account=account,
    )
    at = clock.format_ms(now - timedelta(minutes=minutes_ago))
    traces.insert([make_entry(created_at=at, ttfb_ms=0.0, rate_limits=limits)])


def test_each_window_is_a_line_with_the_name_of_its_account(run, traces):
    assert run("limits").stdout.startswith("No response has stated a window")
    record(traces, "b" * 32, 1.07, resets_in=-timedelta(minutes=10))
    record(traces, "a" * 32, 0.6, resets_in=timedelta(hours=3), minutes_ago=12)
    run("credentials", "name", "a" * 32, "laptop of Ana")
    first, second = run("limits").stdout.splitlines()[1:]
    assert first.split()[:8] == ["laptop", "of", "Ana", "5h", "60%", "at", "most", "40%"]
    assert first.rstrip().endswith("12 min ago  allowed_warning")
    assert second.split()[:5] == ["bbbbbbbb", "5h", "107%", "reset", "since"]
    items = json.loads(run("limits", "--json").stdout)["items"]
    assert [(each["account"][0], each["left"]) for each in items] == [("a", 0.4), ("b", None)]
    assert set(items[0]) == {
        "account", "window", "used", "left", "resets_at", "read_at", "used_up_at", "status",
    }  # fmt: skip


def test_the_limits_of_a_service_elsewhere_are_shown(monkeypatch):
    monkeypatch.setenv("TAXIMETER_API_KEY", "sk_" + "k" * 43)
    with Upstream() as service:
        empty = b'{"items": [], "nextCursor": null, "hasMore": false}'
        service.otherwise = answer(200, empty)
        result = CliRunner().invoke(cli, ["limits", "--base-url", service.url, "--json"])
        assert result.exit_code == 0, result.output
        (request,) = service.requests
    assert (request.method, request.target) == ("GET", "/api/limits")
