"""Restarts of processes that die: the proxy goes on, and /healthz says why."""

import json
import re
from contextlib import suppress

import psutil

from tests.live.service import Child, Endpoint, Service

OFTEN = re.compile(r"\b([4-9]|\d\d) times in a row")


def kill_as_often_as_it_comes(service: Service, name: Child, times: int | None = None) -> None:
    """Kill the processes that come in the place of one another, as many as that or until the service ends."""
    killed: set[int] = set()

    def kill_it() -> bool:
        pid = service.pids().get(name)
        if pid is None or pid in killed:
            return service.has_ended
        killed.add(pid)
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
        return True

    while not service.has_ended and (times is None or len(killed) < times):
        service.wait_until(kill_it, f"a {name} process")


def test_a_recorder_that_cannot_run_leaves_the_proxy_serving_and_healthz_says_why(
    crashing: Endpoint,
) -> None:
    service = crashing.service
    lock = service.data_dir / "recorder.lock"
    lock.unlink()
    lock.mkdir()
    service.kill9("recorder")

    def complaint() -> str:
        report = json.loads(service.get("/healthz").body)
        return " ".join([*report["reasons"], *report.get("last_lines", {}).get("recorder", [])])

    service.wait_until(
        lambda: OFTEN.search(complaint()) and "recorder.lock" in complaint(),
        "a recorder that died four times",
    )
    assert service.health() == 503
    assert crashing.send().status == 200
    elsewhere = service.send(b"GET /healthz HTTP/1.1\r\nHost: meter.example\r\n\r\n")
    assert elsewhere.status == 503
    assert OFTEN.search(elsewhere.body.decode())
    assert b"recorder.lock" not in elsewhere.body
    lock.rmdir()
    service.wait_healthy()
    assert len(crashing.rows()) == 1
    assert not (service.data_dir / "children.json").exists()


def test_a_web_process_that_dies_again_and_again_ends_nobody_else(crashing: Endpoint) -> None:
    kill_as_often_as_it_comes(crashing.service, "web", 4)
    assert crashing.send().status == 200
    crashing.service.wait_healthy()


def test_a_proxy_that_cannot_live_ends_the_service(crashing: Endpoint) -> None:
    service = crashing.service
    kill_as_often_as_it_comes(service, "proxy")  # three times, where restarts are quick enough
    assert service.wait() == 1
    assert "the proxy process died 3 times within 10 s" in service.output
