"""A copy of the project, in which trails are walked.

    copy.walk(trail)
    copy.check_named(trail)
    copy.generate()
    copy.run_tests(["tests/test_walked.py"])

It has what git knows of the project, as it is now. Programs run in it with the interpreter of the tests,
and import the copy. What they compile is copied too, so that they begin as fast as here.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.trails.contributing import is_named, list_sources, read_trails

_LIST = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]


@dataclass(frozen=True, kw_only=True)
class Trail:
    """The changes for a trail, and the tests that must pass after them."""

    heading: str
    walk: "Callable[[Copy], None]"
    """Changes the files that the trail names."""
    checks: Mapping[str, str]
    """Tests of what it adds, by the paths of their files."""
    tests: Collection[str]
    """Files and folders with tests that are there already and must still pass."""
    choices: Collection[str] = ()
    """Files that the trail names for another kind of what is added."""
    unnamed: Collection[str] = ()
    """New files that it does not name one by one."""


class Copy:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._edited: dict[str, set[str]] = {}
        self._heading = ""
        listed = subprocess.run(_LIST, cwd=ROOT, capture_output=True, check=True).stdout  # noqa: S603
        paths = [Path(name) for name in listed.decode().split("\0") if name]
        for path in paths:
            if (ROOT / path).is_file():
                self._bring(path)
        for path in {path.parent for path in paths if path.suffix == ".py"}:
            if (ROOT / path / "__pycache__").is_dir():
                shutil.copytree(ROOT / path / "__pycache__", folder / path / "__pycache__")

    def _bring(self, path: Path) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, self.folder / path, follow_symlinks=False)

    def walk(self, trail: Trail) -> None:
        """Make the changes of a trail, and the tests of what it adds."""
        self._heading = trail.heading
        trail.walk(self)
        for path, text in trail.checks.items():
            self.create(path, text)

    def insert(self, path: str, text: str, *, after: str = "", before: str = "") -> None:
        """Insert lines after or before a text that is in the file once."""
        place = after or before
        whole = (self.folder / path).read_text()
        assert whole.count(place) == 1, f"{path} has {whole.count(place)} of {place!r}"
        new = f"{place}{text}" if after else f"{text}{place}"
        self._edit(path, whole.replace(place, new))

    def append(self, path: str, text: str) -> None:
        """Add lines at the end of a file."""
        self._edit(path, (self.folder / path).read_text() + text)

    def create(self, path: str, text: str) -> None:
        """Make a file."""
        assert not (self.folder / path).exists()
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        self._edit(path, text)

    def _edit(self, path: str, text: str) -> None:
        self._edited.setdefault(self._heading, set()).add(path)
        (self.folder / path).write_text(text)

    def generate(self) -> None:
        """Do what ``./run.sh generate`` does."""
        self._run("-m", "dashboard.tables.metadata")
        documents = [*self.folder.glob("docs/*.md"), "dashboard/templates/help_costs.html"]
        self._run("-m", "cogapp", "-r", *map(str, documents))

    def run_tests(self, paths: Collection[str]) -> None:
        """Run the tests of these files and folders."""
        self._run("-m", "pytest", "-q", "-pno:xdist", "-pno:cacheprovider", *sorted(paths))

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(  # noqa: S603
            [sys.executable, *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"

    def check_named(self, trail: Trail) -> None:
        """Check that a trail names the files that were changed for it, and no others."""
        named = list_sources(read_trails()[trail.heading])
        edited = {
            path
            for path in self._edited[trail.heading] - {*trail.checks, *trail.unnamed}
            if not path.startswith("docs/")
        }
        unnamed = [path for path in edited if not any(is_named(path, name) for name in named)]
        assert unnamed == [], f"the trail does not name {unnamed}"
        needless = [
            name
            for name in named
            if name not in trail.choices and not any(is_named(path, name) for path in edited)
        ]
        assert needless == [], f"it works without {needless}"
