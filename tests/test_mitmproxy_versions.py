"""The oldest and the newest mitmproxy are tested beside the locked one, out of indexes of the tests' own."""

import socket
from importlib.metadata import version

import pytest

from runtime.installing import MITMPROXY_OLDEST
from tests import ROOT, mitmproxy_versions
from tests.pip_index import write_wheel

pytestmark = [
    pytest.mark.slow,  # pip takes a second
    pytest.mark.usefixtures("without_pip_settings", "without_plugins"),
]


def test_tests_run_with_the_oldest_and_the_newest_and_one_that_fails_is_told(
    pip_index, monkeypatch, capfd
):
    for number in (MITMPROXY_OLDEST, "12.99.0", "13.5.0", "14.0.0"):
        write_wheel(pip_index, "mitmproxy", number)
    tests = pip_index / "test_version.py"
    tests.write_text(
        "from importlib.metadata import version\n"
        "import runtime.installing\n"
        f"def test_version(): assert version('mitmproxy') == {MITMPROXY_OLDEST!r}\n"
    )
    monkeypatch.setattr(mitmproxy_versions, "TESTS", (str(tests),))
    monkeypatch.setattr(mitmproxy_versions, "IN_PARALLEL", ("-p", "no:xdist"))
    assert mitmproxy_versions.main() == 1
    said = capfd.readouterr().out
    oldest, newest = said.index(f"With mitmproxy {MITMPROXY_OLDEST}:\n"), said.index("13.5.0:\n")
    assert said.index("1 passed") > oldest
    assert said.index("1 failed") > newest > said.index("1 passed")


def test_what_fails_beside_others_and_passes_alone_passes(pip_index, monkeypatch, capfd):
    write_wheel(pip_index, "mitmproxy", MITMPROXY_OLDEST)
    monkeypatch.setattr(
        mitmproxy_versions, "_read_dependencies", lambda: [f"mitmproxy<={MITMPROXY_OLDEST}"]
    )
    tests = pip_index / "test_time.py"
    tests.write_text(
        "from pathlib import Path\n"
        "TRIED = Path(__file__).with_suffix('.tried')\n"
        "def test_that_had_no_time():\n"
        "    has_time = TRIED.exists()\n"
        "    TRIED.touch()\n"
        "    assert has_time\n"
        "def test_that_passes(): pass\n"
    )
    monkeypatch.setattr(mitmproxy_versions, "TESTS", (str(tests),))
    monkeypatch.setattr(mitmproxy_versions, "IN_PARALLEL", ("-p", "no:xdist"))
    assert mitmproxy_versions.main() == 0
    said = capfd.readouterr()
    assert said.out.index("1 failed, 1 passed") < said.out.index("1 passed, 1 deselected")
    assert "passed only when repeated alone" in said.err


def test_one_that_does_not_fit_our_other_bounds_fails(pip_index, capfd):
    write_wheel(pip_index, "mitmproxy", MITMPROXY_OLDEST, "Requires-Dist: brotli<1.2\n")
    assert mitmproxy_versions.main() == 2
    said = capfd.readouterr().err
    assert said.startswith(f"mitmproxy=={MITMPROXY_OLDEST} could not be installed with what else")
    assert "brotli" in said


def test_one_that_is_locked_is_not_tested_again(pip_index, monkeypatch, capfd):
    monkeypatch.setattr(mitmproxy_versions, "MITMPROXY_OLDEST", version("mitmproxy"))
    assert mitmproxy_versions.main() == 0
    assert capfd.readouterr().out.count("with which all was tested already.\n") == 2


def test_without_an_index_it_says_so_and_goes_on(monkeypatch, capsys):
    with socket.socket() as silent:  # bound and not listening: connections are refused
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
        assert mitmproxy_versions.main() == 0
    assert capsys.readouterr().out.startswith(
        f"mitmproxy=={MITMPROXY_OLDEST}: no package index can be reached, skipped.\n"
    )


def test_the_tests_that_it_runs_are_there():
    for path in mitmproxy_versions.TESTS:
        assert (ROOT / path).exists(), path
