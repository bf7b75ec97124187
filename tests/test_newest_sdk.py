"""The newest SDK is tested beside the locked one, out of package indexes of the tests' own."""

import socket

import pytest

from tests import newest_sdk
from tests.pip_index import write_wheel

pytestmark = [
    pytest.mark.slow,  # pip takes a second
    pytest.mark.usefixtures("without_pip_settings", "without_plugins"),
]


@pytest.fixture
def newer(pip_index, monkeypatch):
    """A newer SDK where pip finds it, and the file of a test that is run with it."""
    write_wheel(pip_index, "anthropic", "99.0.0")
    file = pip_index / "test_version.py"
    monkeypatch.setattr(newest_sdk, "TESTS", (str(file),))
    return file


@pytest.mark.parametrize(("expected", "status"), [("99.0.0", 0), ("98.0.0", 1)])
def test_tests_run_with_the_newest_sdk_and_what_they_find_is_the_status(
    newer, capfd, expected, status
):
    newer.write_text(
        "from tests.wire.sdk_sources import find_version\n"
        f"def test_version(): assert find_version() == {expected!r}\n"
    )
    assert newest_sdk.main() == status
    assert capfd.readouterr().out.startswith("With anthropic 99.0.0:\n")


def test_without_an_index_it_says_so_and_fails(monkeypatch, capsys):
    with socket.socket() as silent:  # bound and not listening: connections are refused
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
        assert newest_sdk.main() == 2
    said = capsys.readouterr().err
    assert said.startswith("The newest anthropic could not be installed, so nothing was tested.")
    assert "pip says:\n" in said
    assert "Connection refused" in said
