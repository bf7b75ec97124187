"""The trails of ``CONTRIBUTING.md``: each file and each name in them is there."""

import re
from pathlib import Path

import pytest

from tests import ROOT
from tests.trails.contributing import is_path, list_paths, list_spans, read_trails

PACKAGES = [path.parent for path in ROOT.glob("*/__init__.py")]
# What a trail would add.
EXAMPLES = {"audio_tokens", "failed_days"}
_NAME = re.compile(r"(?<![\w-])[A-Za-z_]\w+(?![\w-])")
TRAILS = read_trails()


def find_files(path: str) -> list[Path]:
    """Return the files of a path; ``<noun>`` in it stands for any name. A bare name is that of a
    file anywhere."""
    pattern = re.sub(r"<\w+>", "*", path)
    if "/" in path or (ROOT / path).exists():
        return sorted(ROOT.glob(pattern))
    return [file for package in PACKAGES for file in package.rglob(pattern)]


def list_names(trail: str) -> set[str]:
    """Return the names in all other code quotes: of functions, constants, columns and arguments."""
    spans = [span for span in list_spans(trail) if not is_path(span)]
    return {name for span in spans for name in _NAME.findall(span)} - EXAMPLES


def test_there_are_the_trails_that_people_look_for():
    wanted = ("query", "tokens", "price", "command", "header", "retention", "provider", "page")
    assert [word for word in wanted if not any(word in heading for heading in TRAILS)] == []
    assert all(list_paths(trail) for trail in TRAILS.values())


@pytest.mark.parametrize("heading", TRAILS)
def test_every_file_that_a_trail_names_is_there(heading):
    assert [path for path in list_paths(TRAILS[heading]) if not find_files(path)] == []


@pytest.mark.parametrize("heading", TRAILS)
def test_every_name_in_a_trail_is_in_a_file_that_it_names(heading):
    files = {file for path in list_paths(TRAILS[heading]) for file in find_files(path)}
    text = "\n".join(file.read_text() for file in files if file.is_file())
    words = set(re.findall(r"\w+", text))
    assert sorted(list_names(TRAILS[heading]) - words) == []
