"""A service that runs in the image, without root and on a root that is read-only, takes calls.

`.ci/image` builds the image, and names it in TAXIMETER_IMAGE, and in TAXIMETER_ENGINE what runs it.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.live.messages import MODEL
from tests.live.service import API_KEY, Service
from tests.rawclient import TIMEOUT_S
from tests.upstream import Upstream, answer

IMAGE = os.environ.get("TAXIMETER_IMAGE")
ENGINE = os.environ.get("TAXIMETER_ENGINE", "docker")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        IMAGE is None,
        reason="there is no image to test; `.ci/image TAG` builds one and runs this",
    ),
]


class ImageService(Service):
    """A container of the image, hardened as in ``deploy/compose.yaml``, on the machine's own network."""

    def __init__(self, folder: Path, upstream_url: str) -> None:
        super().__init__(folder, upstream_url)
        self.name = f"taximeter-{uuid4().hex}"
        settings = {
            name: value
            for name, value in self.environment.items()
            if name.startswith("TAXIMETER_") and name != "TAXIMETER_DATA_DIR"
        }
        # An engine that runs without root finds its images by the variables of its user.
        self.environment = {**os.environ, **settings}
        self.program = (
            ENGINE, "run", "--rm", "--init", "--name", self.name, "--network", "host",
            "--read-only", "--tmpfs", "/tmp:mode=1777",  # noqa: S108 - the container's
            "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true",
            *(part for name in settings for part in ("--env", name)), IMAGE or "",
        )  # fmt: skip

    def run(self, *command: str) -> str:
        """Run a command within the container and return what it prints."""
        done = subprocess.run(  # noqa: S603 - the engine of this machine
            [ENGINE, "exec", self.name, *command],
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def close(self) -> None:
        """End the container too, which outlives a client of the engine that was killed."""
        super().close()
        subprocess.run(  # noqa: S603 - the engine of this machine
            [ENGINE, "rm", "--force", "--volumes", self.name],
            env=self.environment, capture_output=True, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageService]:
    """One with a call in it, which is stopped in the end as the engine does it."""
    body = {"type": "message", "model": MODEL, "usage": {"input_tokens": 3, "output_tokens": 4}}
    with (
        Upstream() as upstream,
        ImageService(tmp_path_factory.mktemp("image"), upstream.url) as service,
    ):
        upstream.enqueue(answer(200, json.dumps(body).encode()))
        response = httpx.post(
            f"http://{service.host}/proxy/default/v1/messages",
            headers={"x-api-key": API_KEY, "anthropic-version": "2023-06-01"},
            json={"model": MODEL, "max_tokens": 4, "messages": []},
            timeout=TIMEOUT_S,
        )
        assert response.json() == body
        yield service
        assert service.terminate() == 0
        assert "Traceback" not in service.output
        assert upstream.faults == []


def test_the_call_is_recorded(service: ImageService) -> None:
    def export() -> list[dict[str, object]]:
        items: list[dict[str, object]] = json.loads(
            service.run("taximeter", "export", "--since", "1h", "--json")
        )["items"]
        return items

    service.wait_until(export, "the call's entry")
    [entry] = export()
    assert (entry["model"], entry["output_tokens"]) == (MODEL, 4)


def test_it_is_healthy_as_its_own_check_sees_it(service: ImageService) -> None:
    address = f"TAXIMETER_LISTEN={service.host}"  # the kernel chose the port
    service.run("env", address, "python", "-P", "-m", "manage.healthcheck")


def test_its_pages_answer(service: ImageService) -> None:
    url = f"http://{service.host}/"
    page = httpx.get(url, headers={"accept": "text/html"}, timeout=TIMEOUT_S)
    assert page.status_code in (200, 303)
