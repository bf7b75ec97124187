import os
import subprocess
import sys
from itertools import chain

import pytest

from manage.metrics.processes import find_name, find_processes
from manage.supervision.services import ServiceMaker
from runtime import extensions
from runtime.settings import Settings


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python -P -O -m addon --name proxy-2 --web-port 1", "proxy-2"),
        ("python -m addon", "proxy"),
        ("python -P -m recorder", "recorder"),
        ("python -P -m manage.server --fd 5", "web"),
        ("python -P -m dashboard.queries --count=3", "queries"),
        ("python -P -m extensions.otel", "otel"),
        ("python -m http.server", None),
        ("sleep 5", None),
        ("", None),
    ],
)
def test_a_process_is_named_as_its_log_lines_are(command, name):
    assert find_name(command.split(" ")) == name


def test_every_process_of_a_node_has_the_name_of_its_service(tmp_path):
    everything = {"TAXIMETER_CLUSTER": "redis://localhost", "TAXIMETER_OTEL": "on"}
    settings = Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)} | everything)
    specs = chain(*extensions.call().processes(settings=settings, environ=everything))
    maker = ServiceMaker(
        settings,
        web_fd=3,
        web_port=80,
        board_fd=4,
        parent_fd=5,
        stdout_fd=None,
        sockets=tmp_path,
        is_demo=False,
    )
    children = [service.child for service in maker.make({}, list(specs))]
    assert {child.name for child in children} == {"web", "queries", "cluster", "recorder", "otel"}
    assert [find_name(child.command) for child in children] == [child.name for child in children]


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="processes are found on Linux alone; run it there"
)
def test_the_supervisor_and_its_children_are_found_with_what_they_take():
    code = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, "-m", "recorder"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # noqa: S603 - our own program
        assert child.stdout is not None
        child.stdout.readline()  # before, it may not yet have its command
        found = {each.name: each for each in find_processes(os.getpid())}
        child.communicate(b"")
    assert found.keys() == {"up", "recorder"}
    assert found["up"].cpu_s > 0
    assert all(each.resident_bytes > 1_000_000 and each.descriptors > 2 for each in found.values())


def test_a_supervisor_that_is_gone_has_no_processes(tmp_path):
    assert find_processes(1, tmp_path) == []
