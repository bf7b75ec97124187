import ast
import os
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


@pytest.mark.skipif(
    sys.platform != "linux", reason="only on Linux has each thread a priority; run it there"
)
@pytest.mark.parametrize("is_gentle", [False, True])
def test_what_is_loaded_gently_takes_its_turn_last_and_what_follows_does_not(tmp_path, is_gentle):
    (tmp_path / "slow.py").write_text(
        "import os\nfound = os.getpriority(os.PRIO_PROCESS, 0), os.environ.get('TAXIMETER_LOAD_GENTLY')"
    )
    program = (
        "import os\nfrom runtime import loading\nloading.load_gently('slow')\n"
        "import slow\nprint(*slow.found, os.getpriority(os.PRIO_PROCESS, 0))"
    )
    printed = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-P", "-c", program],
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"}
        | ({"TAXIMETER_LOAD_GENTLY": "1"} if is_gentle else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert printed.stdout.split() == [str(19 if is_gentle else usual), "None", str(usual)]


@pytest.mark.parametrize(
    "program",
    [
        "addon/__main__.py",
        "dashboard/queries/__main__.py",
        "manage/server.py",
        "recorder/__main__.py",
    ],
)
def test_every_process_imports_between_its_beginning_and_its_end(program):
    lines = ast.parse((ROOT / program).read_text()).body[1:]  # without the docstring
    imports = [line for line in lines if isinstance(line, ast.Import | ast.ImportFrom)]
    assert ast.unparse(imports[0]) == "from runtime import loading"
    assert lines[: len(imports)] == imports
    assert ast.unparse(lines[len(imports)]) == "loading.finish()"


def test_a_command_imports_from_the_beginning_until_it_runs():
    lines = ast.parse((ROOT / "manage/cli/main.py").read_text()).body[1:]  # without the docstring
    assert ast.unparse(lines[0]) == "from runtime import loading"
    *_, group = (line for line in lines if isinstance(line, ast.FunctionDef))
    assert group.name == "cli"
    assert ast.unparse(group.body[-1]) == "loading.finish()"
