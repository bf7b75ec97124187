import os
import subprocess
import sys

import pytest

from manage.metrics.processes import find_name, find_processes


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python -P -O -m addon --name proxy-2 --web-port 1", "proxy-2"),
        ("python -m addon", "proxy"),
        ("python -P -m recorder", "recorder"),
        ("python -P -m manage.server --fd 5", "web"),
        ("python -P -m dashboard.queries --count=3", "queries"),
        ("python -P -m manage.otel", "otel"),
        ("python -m http.server", None),
        ("sleep 5", None),
        ("", None),
    ],
)
def test_a_process_is_named_as_its_log_lines_are(command, name):
    assert find_name(command.split(" ")) == name


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
