"""``python -m tests.newest_sdk``: the tests of the vendor's SDK, with the newest one of the package index.

They fail on what nobody has decided about yet: see ``tests/wire/decisions.toml``. The SDK is installed
into a folder of its own, which is removed afterwards; the lock and ``.venv`` stay as they are."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import ROOT

PACKAGE = "anthropic"
TESTS = (
    "tests/wire/test_decisions.py",
    "tests/wire/test_response_costs.py",
    "tests/metering/test_sdk_models.py",
    "extensions/reconcile/tests/test_analytics.py",
)
INSTALL_S = 300.0


def main() -> int:
    """Run the tests, and return the exit status: that of pytest, or 2 where nothing could be installed."""
    with TemporaryDirectory(prefix="newest-sdk-") as folder:
        failure = _install(Path(folder))
        if failure is not None:
            print(
                f"The newest {PACKAGE} could not be installed, so nothing was tested. Can a package"
                f" index be reached? pip says:\n{failure}",
                file=sys.stderr,
            )
            return 2
        (found,) = Path(folder).glob(f"{PACKAGE}-*.dist-info")
        name, _, version = found.name.removesuffix(".dist-info").partition("-")
        print(f"With {name} {version}:", flush=True)
        return _run_tests(folder)


def _install(folder: Path) -> str | None:
    """Install the newest SDK with all that it needs, and return what pip says if it cannot."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    command += ["--retries", "1", "--only-binary", ":all:", "--target", str(folder), PACKAGE]
    try:
        done = subprocess.run(  # noqa: S603 - a tool of ours
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"nothing within {INSTALL_S:.0f} seconds"
    return done.stderr.strip() if done.returncode else None


def _run_tests(folder: str) -> int:
    """Run the tests with this folder before all others that Python imports from."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *TESTS]  # fmt: skip
    environ = os.environ | {"PYTHONPATH": folder}
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode  # noqa: S603 - ours


if __name__ == "__main__":
    sys.exit(main())
