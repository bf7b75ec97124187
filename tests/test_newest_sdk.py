"""The newest SDK is tested beside the locked one, out of package indexes of the tests' own."""

import os
import socket
import zipfile

import pytest

from tests import newest_sdk

pytestmark = pytest.mark.slow  # pip takes a second


@pytest.fixture(autouse=True)
def _without_the_settings_of_this_machine(monkeypatch):
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.fixture
def newer(tmp_path, monkeypatch):
    """A newer SDK where pip finds it, and the file of a test that is run with it."""
    about = "anthropic-99.0.0.dist-info"
    with zipfile.ZipFile(tmp_path / "anthropic-99.0.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("anthropic/__init__.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: anthropic\nVersion: 99.0.0\n")  # fmt: skip
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")  # fmt: skip
        wheel.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    file = tmp_path / "test_version.py"
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
