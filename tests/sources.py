"""Source files as trees, each of which a worker parses once for all of its tests."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


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
