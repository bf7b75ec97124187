"""Who may import whom: the table of rooms in ``CONTRIBUTING.md``, and one loop over all modules."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests import ROOT

# A room, what it does, which rooms it may import beside itself, which libraries it does without.
_ROW = re.compile(r"\| `(?P<room>\S+)` \|[^|]+\|(?P<rooms>[^|]+)\|(?P<without>[^|]+)\|")
_MODULE = re.compile(r"`([\w./]+)`")


@dataclass(frozen=True, slots=True)
class Room:
    """One row: a folder or a file, the rooms it may import, and the libraries it must not."""

    path: str
    may_import: frozenset[str]
    without: frozenset[str]


def _read_rooms() -> dict[str, Room]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = [
        Room(
            match["room"],
            frozenset(name.rstrip("/") for name in _MODULE.findall(match["rooms"])),
            frozenset(_MODULE.findall(match["without"])),
        )
        for match in _ROW.finditer(text)
    ]
    return {room.path: room for room in rooms}


ROOMS = _read_rooms()
TOP = {path.rstrip("/") for path in ROOMS if "/" not in path.rstrip("/")}


def _modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for room in sorted(TOP)
        for path in sorted((ROOT / room).rglob("*.py"))
    }


MODULES = _modules()


def _find_room(path: Path) -> Room:
    """Return the row that names this file, or the innermost folder of it that has a row."""
    place = path.relative_to(ROOT)
    names = [str(place), *(f"{folder}/" for folder in place.parents)]
    return next(ROOMS[name] for name in names if name in ROOMS)


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _starts_with(module: str, names: frozenset[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def test_every_row_of_the_table_is_read():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("| room |") :].partition("\n\n")[0].splitlines()[2:]
    assert len(table) == len(ROOMS)


def test_the_table_names_every_package():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - TOP == {"bench", "tests"}


def _find_bad_imports(name: str) -> Iterator[str]:
    """Yield each import of a module that the table does not allow."""
    room = _find_room(MODULES[name])
    own = room.path.removesuffix(".py").rstrip("/").replace("/", ".")
    allowed = room.may_import | {own if room.path.count("/") > 1 else name.partition(".")[0]}
    for imported in _imports(MODULES[name]):
        is_ours = imported.partition(".")[0] in TOP
        if (is_ours and not _starts_with(imported, allowed)) or _starts_with(
            imported, room.without
        ):
            yield f"{name} imports {imported}, which the row {room.path} does not allow"


def test_imports_point_one_way():
    assert [bad for name in MODULES for bad in _find_bad_imports(name)] == []


def test_there_are_no_import_cycles():
    graph = {
        name: set(_imports(path)) & set(MODULES) - {name, name.rpartition(".")[0]}
        for name, path in MODULES.items()
    }
    assert list(TopologicalSorter(graph).static_order())


def test_no_function_imports_inside_its_body():
    for name, path in MODULES.items():
        for function in ast.walk(_parse(path)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                late = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
                assert not late, f"{name}.{function.name} imports inside its body"
