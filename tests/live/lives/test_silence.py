"""A web process that runs and does nothing: it is killed and started again, and calls go on."""

import os
import signal

from tests.live.service import Endpoint


def test_a_web_process_that_stands_still_is_replaced_and_calls_go_on(crashing: Endpoint) -> None:
    service = crashing.service
    web = service.pids()["web"]
    os.kill(web, signal.SIGSTOP)
    assert crashing.send().status == 200
    service.wait_restarted({"web": web})
    assert "the web process has not responded for" in service.errors
    service.wait_healthy()
    assert len(crashing.rows()) == 1
