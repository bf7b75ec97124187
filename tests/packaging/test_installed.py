"""A program that was installed from wheel or sdist, outside the repository, does everything.

`.ci/wheel` builds and installs it, and names it in TAXIMETER_INSTALLED, and in TAXIMETER_INSTALLED_AS
what it was installed from.
"""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import ROOT
from tests.live.messages import MODEL
from tests.live.service import API_KEY, Service
from tests.rawclient import TIMEOUT_S
from tests.upstream import Upstream, answer

PROGRAM = os.environ.get("TAXIMETER_INSTALLED")
HAS_EXTRAS = os.environ.get("TAXIMETER_INSTALLED_AS", "").endswith("with every extra")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
METADATA = json.loads((ROOT / "datasette-metadata.json").read_text())["databases"]["traces"]
PAGE = {"accept": "text/html"}
LINK = re.compile(r"http://\S+/sign-in/link\?token=(\S+)")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        PROGRAM is None,
        reason="there is no installed program to test; `.ci/wheel` installs the wheel and runs this",
    ),
]


class InstalledService(Service):
    """The installed program with no setting but its address and upstream, in an empty folder."""

    program = (PROGRAM or "",)

    def __init__(self, folder: Path, upstream_url: str) -> None:
        super().__init__(folder, upstream_url)
        self.started_in = folder
        self.data_dir = folder / "share" / "taximeter"
        self.environment["XDG_DATA_HOME"] = str(folder / "share")
        for name in ("PYTHONPATH", "TAXIMETER_DATA_DIR"):
            del self.environment[name]
        if HAS_EXTRAS:  # a process that loads one of them, and sends to a port where nobody listens
            self.environment["TAXIMETER_OTEL"] = "on"
            self.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside the service and return how it ended."""
        return subprocess.run(  # noqa: S603 - our own program
            [*self.program, *arguments],
            cwd=self.started_in, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def run(self, *arguments: str) -> str:
        """Run a command beside the service and return what it prints."""
        done = self.call(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        yield server
    assert server.faults == []


@pytest.fixture(scope="module")
def service(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One with a call in it, which is stopped in the end as Ctrl-C does it."""
    body = {"type": "message", "model": MODEL, "usage": {"input_tokens": 3, "output_tokens": 4}}
    upstream.enqueue(answer(200, json.dumps(body).encode()))
    with InstalledService(tmp_path_factory.mktemp("installed"), upstream.url) as service:
        response = httpx.post(
            f"http://{service.host}/proxy/default/v1/messages",
            headers={"x-api-key": API_KEY, "anthropic-version": "2023-06-01"},
            json={"model": MODEL, "max_tokens": 4, "messages": []},
            timeout=TIMEOUT_S,
        )
        assert response.json() == body
        assert len(service.wait_for_rows(1)) == 1
        yield service
        assert service.terminate() == 0
        assert "Traceback" not in service.output


@pytest.fixture(scope="module")
def visitor(service: Service) -> Iterator[httpx.Client]:
    """Somebody who has signed in by the link that the first start printed."""
    token = LINK.search(service.output)
    assert token
    origin = f"http://{service.host}"
    with httpx.Client(
        base_url=origin, follow_redirects=True, headers=PAGE, timeout=TIMEOUT_S
    ) as client:
        form = {"token": token[1]}
        assert client.post("/sign-in/link", data=form, headers={"origin": origin}).is_success
        yield client


def test_it_says_its_version(service: InstalledService) -> None:
    assert service.run("--version").split()[-1] == VERSION


def test_data_is_in_the_directory_of_the_platform_and_that_is_said(
    service: InstalledService,
) -> None:
    assert f"data in {service.data_dir}\n" in service.output
    checks = json.loads(service.run("doctor", "--json"))["checks"]
    [message] = [check["message"] for check in checks if check["check"] == "data folder"]
    assert str(service.data_dir) in message
    assert not (service.started_in / "data").exists()


def test_a_key_reads_the_call_and_every_query_as_json(service: InstalledService) -> None:
    key = json.loads(service.run("keys", "create", "test", "--json"))["key"]
    authorization = {"authorization": f"Bearer {key}"}
    url = f"http://{service.host}"
    with httpx.Client(base_url=url, headers=authorization, timeout=TIMEOUT_S) as client:
        rows = client.get("/traces/usage_log.json?_shape=array").json()
        assert [(row["model"], row["output_tokens"]) for row in rows] == [(MODEL, 4)]
        for query in METADATA["queries"]:
            assert client.get(f"/traces/{query}.json").is_success, query


def test_an_extra_gives_what_it_is_for_and_without_it_the_command_that_installs_it_is_named(
    service: InstalledService,
) -> None:
    file = service.started_in / "calls.parquet"
    done = service.call("export", "--output", str(file))
    if HAS_EXTRAS:
        assert (done.returncode, file.read_bytes()[:4]) == (0, b"PAR1"), done.stderr
    else:
        assert done.returncode == 1
        assert "This command installs them: " in done.stderr


@pytest.mark.parametrize(
    "path", ["/", "/traces", "/traces/usage_log", "/settings", "/settings/keys"]
)
def test_pages_come_with_all_that_they_load(visitor: httpx.Client, path: str) -> None:
    page = visitor.get(path)
    assert page.status_code == 200
    loaded = re.findall(r'(?:src|href)="(/[^"]+\.(?:js|css|svg|ico)(?:\?[^"]*)?)"', page.text)
    assert loaded
    for address in loaded:
        assert visitor.get(address).status_code == 200, address


def test_the_call_has_its_page(visitor: httpx.Client) -> None:
    page = visitor.get("/calls/1")
    assert page.status_code == 200
    assert MODEL in page.text
