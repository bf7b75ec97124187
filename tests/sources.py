"""Source files as trees, each of which a worker parses once for all of its tests."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests import ROOT

TEST_FOLDERS = (ROOT / "tests", *sorted(ROOT.glob("extensions/*/tests")))
"""The tests of the rooms, and those of each extension, which stand with it."""


def find_sources(folder: str) -> list[Path]:
    """Return the Python files of a room. Tests of extensions are none of its files."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return [path for path in files if not {*path.parents} & {*TEST_FOLDERS[1:]}]


def find_tests(pattern: str = "*.py") -> list[Path]:
    """Return the Python files of all tests, or those whose names match a pattern."""
    return [path for folder in TEST_FOLDERS for path in sorted(folder.rglob(pattern))]


@cache
def parse(path: Path) -> ast.Module:
    """Return the tree of a file."""
    return ast.parse(path.read_text())


def walk_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all statements within it. Expressions, most of every file, are left out."""
    open_ = [tree]
    while open_:
        node = open_.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            within = getattr(node, block, ())
            if isinstance(within, list):  # the body of a lambda is an expression
                open_ += within
