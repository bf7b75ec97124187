"""sqlite-utils, which few processes need, without what it imports where that is installed."""

import subprocess
import sys

from store.control.database import ControlDatabase
from tests import ROOT

PROGRAM = """
import sys
from pathlib import Path
from store.control.database import ControlDatabase
ControlDatabase(Path(sys.argv[1])).close()
print("sqlite_utils" in sys.modules)
import store.lean_sqlite_utils
print(sys.modules.keys() & {"numpy", "pandas"})
import numpy, pandas
"""


def test_only_migrations_load_it_and_pandas_and_numpy_can_be_imported_after_it(tmp_path):
    path = tmp_path / "control.db"
    ControlDatabase(path).close()
    for name in ("numpy", "pandas"):
        (tmp_path / f"{name}.py").write_text(f"print('{name}')")
    printed = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-P", "-c", PROGRAM, str(path)],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.splitlines() == ["False", "set()", "numpy", "pandas"]
