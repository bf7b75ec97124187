"""sqlite-utils without what it imports where that is installed."""

import subprocess
import sys

from tests import ROOT

PROGRAM = """
import sys
import store.lean_sqlite_utils
print(sys.modules.keys() & {"numpy", "pandas"})
import numpy, pandas
"""


def test_pandas_and_numpy_are_not_imported_with_it_and_can_be_imported_later(tmp_path):
    for name in ("numpy", "pandas"):
        (tmp_path / f"{name}.py").write_text(f"print('{name}')")
    printed = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-P", "-c", PROGRAM],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.splitlines() == ["set()", "numpy", "pandas"]
