import ast
import subprocess
import sys

import pytest

from tests import ROOT

PROGRAM = """
import gc, importlib
from runtime import loading
print(gc.isenabled())
loading.finish()
print(gc.isenabled(), gc.get_freeze_count() > 0)
gc.unfreeze()
gc.disable()
importlib.reload(loading)
loading.finish()
print(gc.isenabled(), gc.get_freeze_count())
"""


def test_garbage_is_collected_after_loading_unless_somebody_had_switched_that_off():
    printed = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-P", "-c", PROGRAM],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.splitlines() == ["False", "True True", "False 0"]


@pytest.mark.parametrize(
    "program",
    [
        "addon/__main__.py",
        "dashboard/queries/__main__.py",
        "manage/cli/main.py",
        "manage/server.py",
        "recorder/__main__.py",
    ],
)
def test_every_program_imports_between_its_beginning_and_its_end(program):
    lines = ast.parse((ROOT / program).read_text()).body[1:]  # without the docstring
    imports = [line for line in lines if isinstance(line, ast.Import | ast.ImportFrom)]
    assert ast.unparse(imports[0]) == "from runtime import loading"
    assert lines[: len(imports)] == imports
    assert ast.unparse(lines[len(imports)]) == "loading.finish()"
