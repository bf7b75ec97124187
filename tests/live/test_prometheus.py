"""The dashboard for Grafana, asked of a real Prometheus that scrapes the service."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import ROOT
from tests.listening import find_port
from tests.live.service import Endpoint
from tests.upstream import PATIENCE_S, answer, error_json, wait_until

PROMETHEUS = shutil.which("prometheus")
VALUES = {
    "$copy": "",
    "$endpoint": ".*",
    "$model": ".*",
    "$__rate_interval": "1m",
    "$__range": "1h",
}

pytestmark = pytest.mark.skipif(
    PROMETHEUS is None, reason="there is no prometheus; apt-get install prometheus brings it"
)

type Ask = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def ask(customised: Endpoint, tmp_path: Path) -> Iterator[Ask]:
    """Returns the result of a query at a Prometheus that scrapes the service of this endpoint, which has few
    others: the metrics of the shared service take half a second in the end, and a scrape may take one."""
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": "taximeter", "static_configs": [{"targets": [customised.service.host]}]}
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - what the dashboard is for
            [
                str(PROMETHEUS),
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            wait_until(lambda: find_port(process.pid), "Prometheus listens")
            url = f"http://127.0.0.1:{find_port(process.pid)}"
            with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:

                def ask(query: str) -> list[dict[str, Any]]:
                    response = client.get("/api/v1/query", params={"query": query})
                    assert response.status_code == 200, f"{query}: {response.text}"
                    found: list[dict[str, Any]] = response.json()["data"]["result"]
                    return found

                yield ask
        finally:
            process.kill()
            process.wait()


def test_each_panel_of_the_dashboard_has_an_answer(ask: Ask, customised: Endpoint) -> None:
    customised.upstream.enqueue(answer(529, error_json("overloaded_error", "Overloaded")))
    assert [customised.send().status for _ in range(3)] == [529, 200, 200]
    customised.rows()
    samples = f'count_over_time(taximeter_calls_total{{endpoint="{customised.slug}"}}[1h]) >= 2'
    wait_until(lambda: len(ask(samples)) == 2, "two scrapes of both outcomes")
    dashboard = json.loads((ROOT / "docs" / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for query in queries:
        # A scrape that takes longer than it may, on a machine that does much else, leaves a gap.
        wait_until(partial(ask, fill_in(query)), f"an answer to {query}")


def fill_in(query: str) -> str:
    for name, value in VALUES.items():
        query = query.replace(name, value)
    return query
