"""Who may import whom. Imports point one way, and there are no cycles."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "store": {"store"},
    "addon": {"addon", "store"},
    "recorder": {"recorder", "store"},
    "dashboard": {"dashboard", "store"},
    "manage": {"manage", "store"},
}
KNOWS_MITMPROXY = {
    "addon.__main__",
    "addon.compat",
    "addon.dispatch",
    "addon.main",
    "addon.plain_http",
    "addon.proxy",
    "addon.reading",
    "addon.request_heads",
    "addon.responder",
    "addon.upstream_tls",
}


def _modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in MAY_IMPORT
        for path in sorted((ROOT / package).rglob("*.py"))
    }


MODULES = _modules()


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_one_way(name):
    allowed = MAY_IMPORT[name.partition(".")[0]]
    if name == "manage.server":
        allowed = allowed | {"dashboard"}  # the one place where the pages are mounted
    ours = {imported.partition(".")[0] for imported in _imports(MODULES[name])} & set(MAY_IMPORT)
    assert ours <= allowed


@pytest.mark.parametrize("name", sorted(set(MODULES) - KNOWS_MITMPROXY))
def test_only_the_edge_knows_mitmproxy(name):
    assert not {i for i in _imports(MODULES[name]) if i.partition(".")[0] == "mitmproxy"}


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("store")])
def test_the_store_knows_no_http_and_no_threads(name):
    if name in ("store.lifeline", "store.outlet"):  # one thread each, that waits for others
        return
    banned = {"http", "asyncio", "threading", "socket", "starlette", "uvicorn", "httpx"}
    assert not {i.partition(".")[0] for i in _imports(MODULES[name])} & banned


def test_there_are_no_import_cycles():
    graph = {name: _imports(path) & set(MODULES) - {name} for name, path in MODULES.items()}
    assert list(TopologicalSorter(graph).static_order())


def test_no_function_imports_our_own_packages_late():
    for name, path in MODULES.items():
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                late = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
                assert not late, f"{name}.{function.name} imports inside its body"
