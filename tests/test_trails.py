"""The trails of ``CONTRIBUTING.md``: each file and each name in them is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

PACKAGES = [path.parent for path in ROOT.glob("*/__init__.py")]
# What a trail would add.
EXAMPLES = {"audio_tokens"}
_COMMAND = re.compile(r"\./run\.sh|taximeter |PYTHONPATH=|\.venv/|TAXIMETER_")
_NAME = re.compile(r"(?<![\w-])[A-Za-z_]\w+(?![\w-])")


def read_trails() -> dict[str, str]:
    """Return each trail by its heading, without its examples in fences."""
    text = re.sub(r"^ *```.*?^ *```", "", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.M | re.S)
    section = text.partition("\n## Habits")[0].rpartition("\n## ")[2]
    return {
        part.partition("\n")[0]: part.partition("\n")[2] for part in section.split("\n### ")[1:]
    }


TRAILS = read_trails()


def list_spans(trail: str) -> Iterator[str]:
    """Yield what the trail has in code quotes, but commands and addresses of pages."""
    for span in re.findall(r"`([^`\n]+)`", trail):
        if not _COMMAND.match(span) and not span.startswith("/"):
            yield span


def is_path(span: str) -> bool:
    """Return whether this is a path from the top, or the bare name of a file."""
    return (
        re.fullmatch(r"(?:[\w.<>-]+/)+(?:[\w.<>-]+)?|[\w-]+\.(?:py|html|toml|json|md)", span)
        is not None
    )


def list_paths(trail: str) -> list[str]:
    return [span for span in list_spans(trail) if is_path(span)]


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
