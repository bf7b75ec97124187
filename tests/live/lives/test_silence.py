"""A web process that runs and does nothing: it is killed and started again, and calls go on."""

import os
import signal
import sys
from pathlib import Path

from tests.live.conftest import make_new_endpoint
from tests.live.service import Service
from tests.upstream import Upstream

# Of the ten turns without a response, each of a second.
IMPATIENT = """
from manage.cli.main import cli
from manage.supervision import liveness
liveness.TURN_S = 0.1
cli()
"""


class ImpatientService(Service):
    program = (sys.executable, "-c", IMPATIENT)


def test_a_web_process_that_stands_still_is_replaced_and_calls_go_on(
    tmp_path: Path, upstream: Upstream
) -> None:
    with ImpatientService(tmp_path, upstream.url) as service:
        endpoint = make_new_endpoint(service, upstream)
        web = service.pids()["web"]
        os.kill(web, signal.SIGSTOP)
        assert endpoint.send().status == 200
        service.wait_restarted({"web": web})
        assert "the web process has not responded for" in service.errors
        service.wait_healthy()
        assert len(endpoint.rows()) == 1
