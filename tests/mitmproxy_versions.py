"""``python -m tests.mitmproxy_versions``: tests of the wire with the oldest mitmproxy that will do, and with
the newest of the package index.

Each is installed into an environment of its own above ``.venv``, which stays as it is. What is locked is left
out: the whole suite runs with it. What fails is repeated alone, as among all the tests."""

import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runtime.installing import MITMPROXY_OLDEST
from tests import ROOT

PACKAGE = "mitmproxy"
WIRE = ("framing", "headers", "leaving_clients", "streaming", "unreachable_upstream")
TRANSFERS = ("cut_responses", "early_responses", "leaving", "pipelining", "uploads")
TESTS = (
    "tests/addon/test_mitmproxy_patches.py",
    "tests/addon/core",
    "tests/addon/http1",
    *(f"tests/live/wire/test_{name}.py" for name in WIRE),
    *(f"tests/live/transfers/test_{name}.py" for name in TRANSFERS),
)
IN_PARALLEL = (
    "--numprocesses=auto",
    "--maxprocesses=4",
    "--dist=loadfile",
    "--no-loadscope-reorder",
)
INSTALL_S = 300.0
NO_INDEX = "connection broken"  # says pip


def main() -> int:
    """Run the tests, and return the exit status: not 0 where some failed, or where an index has no version
    that can be installed with the rest."""
    [asked] = [text for text in _read_dependencies() if text.startswith(PACKAGE)]
    known, statuses = {version(PACKAGE)}, [0]
    for wanted in (f"{PACKAGE}=={MITMPROXY_OLDEST}", asked):
        with TemporaryDirectory(prefix=f"{PACKAGE}-") as folder:
            python = _make_environment(Path(folder))
            failure = _install(python, wanted, Path(folder))
            if failure is not None:
                return max(*statuses, _report(wanted, failure))
            found = _find_version(python)
            if found in known:
                print(f"{wanted}: the newest is {found}, with which all was tested already.")
                continue
            known.add(found)
            print(f"With {PACKAGE} {found}:", flush=True)
            statuses.append(_run_tests(python, Path(folder)))
    return max(statuses)


def _read_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [str(text) for text in project["dependencies"]]


def _make_environment(folder: Path) -> Path:
    """Make an environment that has all that ours has; return its Python."""
    environment = folder / "venv"
    venv.create(environment, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(environment)})
    ours = sysconfig.get_path("purelib")
    Path(packages, "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    return environment / "bin" / "python"


def _install(python: Path, wanted: str, folder: Path) -> str | None:
    """Install a version within our bounds for other packages, and return what pip says if it cannot."""
    bounds = folder / "bounds.txt"
    bounds.write_text("\n".join(_read_dependencies()))
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--retries", "1", "--no-compile", "--only-binary", ":all:", "--upgrade"]
    command += ["--constraint", str(bounds), wanted]
    try:
        done = subprocess.run(  # noqa: S603 - a tool of ours
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"nothing within {INSTALL_S:.0f} seconds"
    return done.stdout.strip() if done.returncode else None


def _report(wanted: str, failure: str) -> int:
    """Say that a version could not be installed, and return the status for it."""
    if NO_INDEX in failure:
        print(f"{wanted}: no package index can be reached, skipped.")
        return 0
    print(
        f"{wanted} could not be installed with what else pyproject.toml asks for. pip says:\n{failure}",
        file=sys.stderr,
    )
    return 2


def _find_version(python: Path) -> str:
    program = f"from importlib.metadata import version; print(version({PACKAGE!r}))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    return done.stdout.strip()


def _run_tests(python: Path, folder: Path) -> int:
    """Run the tests by this Python, which runs all processes that they start, too; return the exit status."""
    command = [str(python), "-m", "pytest", "-q", "-o", f"cache_dir={folder / 'cache'}", *TESTS]
    status = _run([*command, *IN_PARALLEL])
    if status != pytest.ExitCode.TESTS_FAILED:
        return status
    status = _run([*command, "--last-failed", "--last-failed-no-failures=none"])
    if status == 0:
        print("The tests above passed only when repeated alone.", file=sys.stderr)
    return status


def _run(command: list[str]) -> int:
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 - ours


if __name__ == "__main__":
    sys.exit(main())
