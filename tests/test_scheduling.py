import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests import ROOT
from tests.scheduling import GROUPS, SHARED, FileScheduling
from tests.sources import find_tests


def find_before(expression: str, text: str) -> Iterator[str]:
    """Yield what is before each match in its line."""
    for match in re.finditer(expression, text):
        yield text[text.rfind("\n", 0, match.start()) + 1 : match.start()]


@pytest.mark.parametrize(
    ("folder", "use"),
    [
        ("", r"\b(shared_service: Service|live: Endpoint|: EndpointFactory)\b"),
        ("", r"(import|from|import_lazily\(\") ?anthropic\b|sdk_\w+ import|tests\.wire\.sdk_"),
    ],
)
def test_files_that_use_the_shared_service_or_the_sdk_are_for_one_worker(folder, use):
    scheduling = FileScheduling.__new__(FileScheduling)
    using = [
        path.relative_to(ROOT).as_posix()
        for path in find_tests("test_*.py")
        if path.is_relative_to(ROOT / folder)
        if any(not {"#", '"'} & {*before} for before in find_before(use, path.read_text()))
    ]
    assert len(using) >= 4
    groups = {path: scheduling._split_scope(f"{path}::test_this") for path in using}
    assert groups == dict.fromkeys(using, SHARED)


def test_every_group_is_of_files_that_are_there():
    assert [start for start in GROUPS if not [*ROOT.glob(f"{start}*")]] == []


OUTCOMES = """
import pytest

@pytest.fixture
def broken_before():
    raise OSError("before")

@pytest.fixture
def broken_after():
    yield
    raise OSError("after")

def test_passes(): pass

def test_has_a_part_that_fails(subtests):
    with subtests.test("a part"):
        assert "part" == "whole"

def test_fails(): assert "ours" == "theirs"
def test_is_skipped(): pytest.skip("nothing to do")
@pytest.mark.xfail
def test_is_known_to_fail(): assert False
def test_is_broken_before(broken_before): pass
def test_is_broken_after(broken_after): pass
"""


@pytest.mark.slow
def test_workers_report_every_outcome(tmp_path):
    (tmp_path / "test_outcomes.py").write_text(OUTCOMES)
    plugins = ["tests.scheduling"]
    without = [
        "anyio",
        "asyncio",
        "cacheprovider",
        "hypothesispytest",
        "pytest_cov",
        "schemathesis",
    ]
    plugins += [f"no:{name}" for name in without]
    options = ["-n1", "--dist=loadfile", "-ra", "--color=no", *(f"-p{name}" for name in plugins)]
    run = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", tmp_path],
        env=os.environ | {"PYTHONPATH": os.fspath(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert re.sub(r" in .*", "", run.stdout.splitlines()[-1]).strip("= ").split(", ") == [
        "3 failed",  # with the part, and the test that has it
        "2 passed",
        "1 skipped",
        "1 xfailed",
        "2 errors",
    ]
    for compared in ("'ours' == 'theirs'", "'part' == 'whole'"):
        assert compared in run.stdout
    for when in ("before", "after"):
        assert f"OSError: {when}" in run.stdout
