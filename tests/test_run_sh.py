"""The installations of `run.sh`. Its Python is a stand-in that writes down how it is called."""

import os
import re
import shutil
import subprocess
import tomllib

import pytest

from tests import ROOT

LOCK, DEV_LOCK = ROOT / "requirements.lock", ROOT / "requirements-dev.lock"

# `-m venv` makes a .venv with this same script in the place of every program.
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case "$*" in
  --version) echo "Python 3.13.0" ;;
  *"-m venv"*)
    mkdir -p .venv/bin
    for name in python taximeter ruff mypy cog; do cp "$0" .venv/bin/$name; done ;;
  *"-m pip install"*)
    echo "WARNING: the talk of pip"
    test -z "$FAILS" ;;
  "keys "*) echo "$TAXIMETER_CALLED_AS" ;;
  "run "*) echo "$PWD $TAXIMETER_DATA_DIR" ;;
  *"-m bench"*) echo "$PWD $PYTHONPATH" ;;
esac
"""


# An older Python: it does not fit, and can make an environment. What it installs as uv brings the other.
OLD_STAND_IN = """#!/bin/sh
case "$*" in
  *sqlite3*) exit 1 ;;
  *"import ensurepip"*) exit "${NO_VENV:-0}" ;;
  --version) echo "Python 3.11.2" ;;
  *"-m venv"*) echo "old $*" >>"$CALLS"; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
  *"-m pip install"*)
    echo "old $*" >>"$CALLS"
    test -z "$NO_INDEX" || exit 1
    cp "$0" .venv/bin/uv ;;
  "python install 3.13")
    echo "uv $*" >>"$CALLS"
    test -z "$NO_DOWNLOAD" || { echo "uv: cannot connect"; exit 1; }
    mkdir -p "$UV_PYTHON_INSTALL_DIR/cpython-3.13/bin"
    cp "$NEW" "$UV_PYTHON_INSTALL_DIR/cpython-3.13/bin/python3.13" ;;
esac
"""
TOOLS = ("basename", "bash", "cat", "cksum", "cp", "dirname", "env", "find", "grep", "mkdir", "rm", "sh", "tail")  # fmt: skip


@pytest.fixture
def clone(tmp_path):
    """A fresh clone, as far as `run.sh` looks at it."""
    for path in (ROOT / "run.sh", ROOT / "pyproject.toml", LOCK, DEV_LOCK):
        shutil.copy(path, tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3.13").write_text(STAND_IN)
    (tmp_path / "bin" / "python3.13").chmod(0o755)
    return tmp_path


@pytest.fixture
def older(clone):
    """The same on a machine that has no Python but an older one. Returns the variables of that machine."""
    bare = clone / "bare"
    bare.mkdir()
    for tool in TOOLS:
        (bare / tool).symlink_to(shutil.which(tool))
    (bare / "python3").write_text(OLD_STAND_IN)
    (bare / "python3").chmod(0o755)
    return {"PATH": str(bare), "NEW": str(clone / "bin" / "python3.13")}


def run(clone, *arguments, script=None, **variables):
    """Call `run.sh`; the stand-in writes its own calls to a file."""
    calls = clone / "calls"
    calls.write_text("")
    environ = {"PATH": f"{clone / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls), "HOME": "/"}
    return subprocess.run(  # noqa: S603 - ours
        [script or clone / "run.sh", *arguments],
        env=environ | variables, check=False, capture_output=True, text=True,
    )  # fmt: skip


def calls_of(clone, *arguments, **variables):
    """Call `run.sh` and return the calls of the stand-in, in order, but those for its version."""
    done = run(clone, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    calls = (clone / "calls").read_text().splitlines()
    return [call for call in calls if not call.endswith(" --version")]


def locks_installed(calls):
    return re.findall(r"pip install .*-r (\S+)", "\n".join(calls))


def test_running_the_service_installs_only_what_runs_and_only_once(clone):
    calls = calls_of(clone, "doctor")
    assert locks_installed(calls) == ["requirements.lock"]
    assert calls[-1] == "taximeter doctor"
    assert calls_of(clone) == ["taximeter up"]


@pytest.mark.parametrize("command", ["test", "check", "generate", "bench"])
def test_testing_and_checking_add_the_development_tools_once(clone, command):
    calls_of(clone)
    assert locks_installed(calls_of(clone, command)) == ["requirements-dev.lock"]
    assert locks_installed(calls_of(clone, command)) == []


def test_a_fresh_clone_can_be_tested_at_once(clone):
    calls = calls_of(clone, "test", "tests/store")
    assert locks_installed(calls) == ["requirements.lock", "requirements-dev.lock"]
    assert calls[-1].startswith("python -m pytest ")
    assert calls[-1].endswith(" tests/store")


def test_a_quick_test_leaves_out_what_is_live_and_the_browser(clone):
    *_, call = calls_of(clone, "test", "--quick", "tests/store")
    assert (
        " --hypothesis-profile quick -m not live and not browser and not served and not slow "
        in call
    )
    assert call.endswith(" --ignore tests/live --ignore tests/browser tests/store")
    *_, call = calls_of(clone, "test", "tests/store")
    assert "not live" not in call
    assert "quick" not in call


def test_the_newest_sdk_is_checked_alone_and_only_when_it_is_asked_for(clone):
    assert calls_of(clone, "check", "--newest")[-1] == "python -m tests.newest_sdk"
    others = calls_of(clone, "check")
    assert len(others) > 4
    assert "newest" not in "".join(others)


def test_files_are_generated_in_the_order_in_which_they_are_made_of_each_other(clone):
    calls_of(clone, "generate")
    metadata, docs = calls_of(clone, "generate")
    assert metadata == "python -m dashboard.tables.metadata"
    assert docs.startswith("cog -r ")
    assert docs.endswith(" docs/*.md extensions/*/README.md dashboard/templates/help_costs.html")


def test_pictures_are_made_last_and_only_when_they_are_asked_for(clone):
    calls_of(clone, "generate")
    assert "pictures" not in calls_of(clone, "generate")[-1]
    *_, docs, pictures = calls_of(clone, "generate", "--pictures", "home", "call")
    assert docs.startswith("cog -r ")
    assert pictures == "python -m tests.browser.pictures home call"


def test_everything_is_installed_by_its_hash(clone):
    calls = calls_of(clone, "test")
    assert all("--require-hashes" in call for call in calls if " -r " in call)


def test_the_first_install_prints_a_few_lines_of_ours_and_later_calls_none(clone):
    first = run(clone, "test").stderr
    assert len(first.splitlines()) <= 5
    assert "pip" not in first
    assert "the talk of pip" in (clone / ".venv" / "install.log").read_text()
    assert run(clone, "test").stderr == ""


@pytest.mark.parametrize(
    ("setting", "data_dir"), [("", "{clone}/data"), ("mine", "{clone}/mine"), ("/mine", "/mine")]
)
def test_a_client_runs_where_the_caller_is_on_the_data_of_the_checkout(
    clone, tmp_path_factory, monkeypatch, setting, data_dir
):
    project = tmp_path_factory.mktemp("project")
    monkeypatch.chdir(project)
    done = run(clone, "run", "claude", "-p", "two words", TAXIMETER_DATA_DIR=setting)
    assert done.stdout == f"{project} {data_dir.format(clone=clone)}\n"
    assert "taximeter run claude -p two words" in (clone / "calls").read_text()


def test_the_program_learns_by_which_command_it_was_called(clone, monkeypatch):
    assert run(clone, "keys", "list").stdout == f"{clone}/run.sh\n"
    monkeypatch.chdir(clone)
    assert run(clone, "keys", "list", script="./run.sh").stdout == "./run.sh\n"


def test_benchmarks_write_their_files_where_the_caller_is(clone, tmp_path_factory, monkeypatch):
    project = tmp_path_factory.mktemp("project")
    monkeypatch.chdir(project)
    done = run(clone, "bench", "--json", "results.json")
    assert done.stdout == f"{project} {clone}\n"
    assert "python -P -m bench --json results.json" in (clone / "calls").read_text()


def test_what_pip_says_is_shown_when_it_fails(clone):
    done = run(clone, "doctor", FAILS="1")
    assert done.returncode == 1
    assert "the talk of pip" in done.stderr
    assert ".venv/install.log" in done.stderr
    assert calls_of(clone, "doctor")[-1] == "taximeter doctor", "the next call installs again"


def test_the_python_to_use_can_be_named(clone):
    calls_of(clone)
    other = clone / "other-python"
    other.write_text(STAND_IN.replace("3.13.0", "3.12.1"))
    other.chmod(0o755)
    calls = calls_of(clone, "doctor", TAXIMETER_PYTHON=str(other))
    assert "other-python -m venv .venv" in calls
    assert locks_installed(calls_of(clone, "doctor", TAXIMETER_PYTHON=str(other))) == []
    assert locks_installed(calls_of(clone, "doctor")) == [], "whatever it was made with"


def test_a_python_that_does_not_run_is_named(clone):
    done = run(clone, "doctor", TAXIMETER_PYTHON="no-python")
    assert done.returncode == 1
    assert "TAXIMETER_PYTHON=no-python is not" in done.stderr


def test_an_older_python_installs_uv_which_brings_one_that_stays_in_the_checkout(clone, older):
    calls = [call for call in calls_of(clone, "doctor", **older) if " -c " not in call]
    assert [call.partition(" --")[0] for call in calls[:4]] == [
        "old -m venv .venv",
        "old -m pip install",
        "uv python install 3.13",
        "python3.13 -m venv .venv",
    ]
    assert calls[1].endswith(" uv")
    assert calls[-1] == "taximeter doctor"
    with (clone / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert "old" not in "".join(calls_of(clone, "doctor", **older)), "it is there already"


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt-get", "sudo apt-get install python3 python3-venv"),
        ("dnf", "sudo dnf install python3.12"),
        ("brew", "brew install python@3.13"),
        (None, "uv python install 3.13"),
    ],
)
def test_where_no_python_can_bring_one_the_command_of_the_distribution_is_named(
    clone, older, manager, command
):
    if manager:
        (clone / "bare" / manager).touch(mode=0o755)
    done = run(clone, "doctor", **older, NO_VENV="1")
    assert done.returncode == 1
    assert "Taximeter needs Python 3.12 or newer" in done.stderr
    assert command in done.stderr
    assert "UV_PYTHON_INSTALL_MIRROR" not in done.stderr
    assert "taximeter" not in (clone / "calls").read_text()


@pytest.mark.parametrize(
    ("failure", "said"), [("NO_INDEX", "Installing failed"), ("NO_DOWNLOAD", "uv: cannot connect")]
)
@pytest.mark.parametrize(
    ("manager", "command"),
    [("apt-get", ""), ("dnf", "sudo dnf install python3.12"), (None, "")],
)
def test_a_download_that_failed_is_not_what_the_hint_leads_to_again(
    clone, older, failure, said, manager, command
):
    if manager:
        (clone / "bare" / manager).touch(mode=0o755)
    done = run(clone, "doctor", **older, **{failure: "1"})
    assert done.returncode == 1
    assert said in done.stderr
    assert "Python 3.13 could not be downloaded. UV_PYTHON_INSTALL_MIRROR names" in done.stderr
    assert "TAXIMETER_PYTHON names a Python" in done.stderr
    assert re.findall("^    (.*install.*)$", done.stderr, re.M) == ([command] if command else [])
    assert "taximeter" not in (clone / "calls").read_text()


def test_a_changed_lock_is_installed(clone):
    calls_of(clone, "test")
    with (clone / "requirements-dev.lock").open("a") as lock:
        lock.write("# changed\n")
    assert locks_installed(calls_of(clone, "test")) == ["requirements-dev.lock"]
    with (clone / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert locks_installed(calls_of(clone, "test")) == [
        "requirements.lock",
        "requirements-dev.lock",
    ]


def test_a_changed_project_with_the_same_lock_is_installed_alone(clone):
    calls_of(clone, "test")
    with (clone / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    calls = calls_of(clone, "doctor")
    [installed] = [call for call in calls if "pip install" in call]
    assert installed.endswith(" --no-deps --no-build-isolation -e .")
    assert locks_installed(calls) == []
    assert calls_of(clone, "doctor") == ["taximeter doctor"]


def pins(lock):
    """Return what a lock file pins: each name with its version, marker and hashes."""
    entries = re.split(r"\n(?=\S)", lock.read_text())
    found = [
        re.match(r"([a-z0-9-]+)==(.*?)\n    #", entry.replace("_", "-"), re.S) for entry in entries
    ]
    return {match[1]: match[2] for match in found if match}


def names(requirements):
    return {re.split(r"[^A-Za-z0-9-]", text)[0].lower() for text in requirements}


def test_what_runs_is_locked_without_what_tests_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tools = names(project["optional-dependencies"]["dev"])
    assert names(project["dependencies"]) <= pins(LOCK).keys()
    assert not tools & pins(LOCK).keys()
    assert tools <= pins(DEV_LOCK).keys()


def test_both_locks_pin_the_same_versions():
    both = pins(DEV_LOCK)
    assert {name: both.get(name) for name in pins(LOCK)} == pins(LOCK)


@pytest.mark.parametrize("lock", [LOCK, DEV_LOCK], ids=lambda path: path.name)
def test_a_lock_names_no_index_and_has_a_hash_for_everything(lock):
    assert not re.search(r"https?://|file://|--(extra-)?index|--find-links", lock.read_text())
    assert all("--hash=sha256:" in pin for pin in pins(lock).values())
