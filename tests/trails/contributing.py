"""The text of the trails in ``CONTRIBUTING.md``, and the files that it names."""

import re
import textwrap
from collections.abc import Iterator

from tests import ROOT

_COMMAND = re.compile(r"\./run\.sh|taximeter |PYTHONPATH=|\.venv/|TAXIMETER_")


def read_trails() -> dict[str, str]:
    """Return each trail by its heading, without its examples in fences."""
    text = re.sub(r"^ *```.*?^ *```", "", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.M | re.S)
    section = text.partition("\n## Habits")[0].rpartition("\n## ")[2]
    return {
        part.partition("\n")[0]: part.partition("\n")[2] for part in section.split("\n### ")[1:]
    }


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
    """Return the paths in a trail, in its order."""
    return [span for span in list_spans(trail) if is_path(span)]


def list_sources(trail: str) -> list[str]:
    """Return the files that a trail has changed by hand: without tests, documents and what is generated."""
    return [
        path
        for path in list_paths(trail)
        if not path.startswith(("tests/", "test_", "docs/"))
        and path not in ("CHANGELOG.md", "datasette-metadata.json")
        and not path.endswith("/")
    ]


def is_named(path: str, name: str) -> bool:
    """Return whether a trail means this file by a name, in which ``<noun>`` stands for any word."""
    return re.fullmatch(re.sub(r"<\w+>", r"[^/]+", name).replace(".", r"\."), path) is not None


def read_example(heading: str) -> str:
    """Return the first example in fences of a trail."""
    trail = (ROOT / "CONTRIBUTING.md").read_text().partition(f"### {heading}\n")[2]
    found = re.search(r"^ *```\w+\n(.*?)^ *```", trail, re.M | re.S)
    assert found is not None
    return textwrap.dedent(found[1])
