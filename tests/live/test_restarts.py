"""Restarts of processes that die: the proxy goes on, and /healthz says why."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.live.service import Child, Endpoint, Service
from tests.upstream import Upstream


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """One for all tests; only the last of them ends its service."""
    with (
        Upstream() as upstream,
        Service(tmp_path_factory.mktemp("restarts"), upstream.url) as service,
    ):
        yield Endpoint(service, upstream, "default")
        assert upstream.faults == []


def kill_as_often_as_it_comes(service: Service, name: Child, times: int) -> None:
    killed: set[int] = set()

    def kill_it() -> bool:
        pid = service.pids().get(name)
        if pid is None or pid in killed:
            return False
        killed.add(pid)
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
        return True

    for _ in range(times):
        service.wait_until(kill_it, f"a {name} process")


def test_a_recorder_that_cannot_run_leaves_the_proxy_serving_and_healthz_says_why(
    endpoint: Endpoint,
) -> None:
    service = endpoint.service
    lock = service.data_dir / "recorder.lock"
    lock.unlink()
    lock.mkdir()
    service.kill9("recorder")

    def complaint() -> str:
        report = json.loads(service.get("/healthz").body)
        return " ".join([*report["reasons"], *report.get("last_lines", {}).get("recorder", [])])

    service.wait_until(
        lambda: "4 times in a row" in complaint() and "recorder.lock" in complaint(),
        "a recorder that died four times",
    )
    assert service.health() == 503
    assert endpoint.send().status == 200
    elsewhere = service.send(b"GET /healthz HTTP/1.1\r\nHost: meter.example\r\n\r\n")
    assert elsewhere.status == 503
    assert b"4 times" in elsewhere.body or b"5 times" in elsewhere.body
    assert b"recorder.lock" not in elsewhere.body
    lock.rmdir()
    service.wait_healthy()
    assert len(service.wait_for_rows(1)) == 1
    assert not (service.data_dir / "children.json").exists()


def test_a_web_process_that_dies_again_and_again_ends_nobody_else(endpoint: Endpoint) -> None:
    kill_as_often_as_it_comes(endpoint.service, "web", 4)
    assert endpoint.send().status == 200
    endpoint.service.wait_healthy()


def test_a_first_start_that_fails_ends_the_service_with_the_reason(
    upstream: Upstream, tmp_path: Path
) -> None:
    (tmp_path / "data" / "recorder.lock").mkdir(parents=True)
    (tmp_path / "data").chmod(0o700)
    service = Service(tmp_path, upstream.url)
    try:
        with pytest.raises(AssertionError, match=r"`up` ended"):
            service.start()
        assert service.wait() == 1
        assert "the recorder process could not start (exit status 1)" in service.output
        assert "recorder.lock: Is a directory" in service.output
        assert "Traceback" not in service.output
    finally:
        service.close()


def test_a_proxy_that_cannot_live_ends_the_service(endpoint: Endpoint) -> None:
    service = endpoint.service
    kill_as_often_as_it_comes(service, "proxy", 3)
    assert service.wait() == 1
    assert "the proxy process died 3 times within 10 s" in service.output
