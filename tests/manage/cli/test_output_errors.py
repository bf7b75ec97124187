"""Commands whose output cannot be written, as processes of their own: Python's end is part of it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import ROOT
from tests.upstream import PATIENCE_S

pytestmark = pytest.mark.live

COMMANDS = (
    ["endpoints", "list"],
    ["endpoints", "list", "--json"],
    ["doctor"],
    ["--help"],
)
"""One of each way to print: a table, a document, lines, and what the library prints."""


SETTINGS = {"TAXIMETER_UPSTREAM_URL": "http://127.0.0.1:1"}  # which doctor tries


def start(data_dir, arguments, environ=None, **streams):
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "manage.cli.main", *arguments],
        cwd=ROOT,
        env=os.environ | SETTINGS | {"TAXIMETER_DATA_DIR": str(data_dir)} | (environ or {}),
        stderr=subprocess.PIPE,
        text=True,
        **streams,
    )


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_line_and_exit_status_1(data_dir, arguments):
    with Path("/dev/full").open("w") as full:
        command = start(data_dir, arguments, stdout=full)
        _, errors = command.communicate(timeout=PATIENCE_S)
    assert errors == "Error: standard output: No space left on device\n"
    assert command.returncode == 1


def test_a_reader_that_has_gone_is_no_error_to_speak_of(data_dir):
    read, write = os.pipe()
    os.close(read)
    command = start(data_dir, ["endpoints", "list"], stdout=write)
    os.close(write)
    _, errors = command.communicate(timeout=PATIENCE_S)
    assert errors == ""
    assert command.returncode == 1


def test_a_service_that_cannot_print_its_address_leaves_nothing_behind(data_dir):
    data_dir.chmod(0o700)
    # Not tmp_path, which is too long for the addresses of sockets.
    with Path("/dev/full").open("w") as full, tempfile.TemporaryDirectory() as folder:
        environ = {"TMPDIR": folder, "TAXIMETER_LISTEN": "127.0.0.1:0"}
        command = start(data_dir, ["up"], environ, stdout=full)
        _, errors = command.communicate(timeout=PATIENCE_S)
        assert list(Path(folder).iterdir()) == []
    assert errors == "Error: standard output: No space left on device\n"
