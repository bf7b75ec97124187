"""Rules of imports: the tables of rooms in ``CONTRIBUTING.md``, and one loop over all modules."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests import ROOT
from tests.sources import find_sources, parse, walk_statements

ROOM_COLUMNS = ["room", "what it does", "may import", "does not import itself"]
WORD_COLUMNS = ["word above", "libraries", "why not everywhere"]
_CODE = re.compile(r"`([\w./]+)`")


@dataclass(frozen=True, slots=True)
class Room:
    """One row: a folder or a file, and the modules that it may and must not import."""

    path: str
    may_import: frozenset[str]
    without: frozenset[str]


def read_table(text: str, columns: list[str]) -> list[list[str]]:
    """Return the cells of each row below these columns. Raises ValueError for any other shape."""
    lines = text[text.index(f"| {columns[0]} |") :].partition("\n\n")[0].splitlines()
    table = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    if table[0] != columns or any(len(row) != len(columns) for row in table):
        raise ValueError(f"a row of the table has other columns than {columns}")
    return table[2:]


def read_code(cell: str) -> list[str]:
    """Return what a cell lists in code quotes; a dash is nothing. Raises ValueError."""
    parts = [] if cell == "\N{EN DASH}" else cell.split(", ")
    found = [_CODE.fullmatch(part) for part in parts]
    if None in found:
        raise ValueError(f"not a list of names in code quotes: {cell}")
    return [match[1] for match in found if match is not None]


def read_rooms(text: str) -> dict[str, Room]:
    """Return the rooms by their paths. Raises ValueError or KeyError for a row it does not know."""
    libraries = {row[0]: read_code(row[1]) for row in read_table(text, WORD_COLUMNS)}
    rooms = {}
    for name, _, may_import, words in read_table(text, ROOM_COLUMNS):
        (path,) = read_code(name)
        without = [library for word in words.split(", ") for library in libraries[word]]
        rooms[path] = Room(path, frozenset(read_code(may_import)), frozenset(without))
    return rooms


TEXT = (ROOT / "CONTRIBUTING.md").read_text()
ROOMS = read_rooms(TEXT)
TOP = {path.rstrip("/") for path in ROOMS if "/" not in path.rstrip("/")}


@cache
def find_modules(*rooms: str) -> dict[str, Path]:
    """Return the files of rooms, or else of all rooms, by the names of their modules."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for room in rooms or sorted(TOP)
        for path in find_sources(room)
    }


PLUGINS = sorted(
    f"extensions.{path.parent.name}.plugin" for path in ROOT.glob("extensions/*/plugin.py")
)


READING = {
    *("get", "hget", "hgetall", "hkeys", "hvals", "mget", "scan_iter", "smembers"),
    *("lindex", "lrange", "xread", "xreadgroup", "xrange", "xpending", "xautoclaim"),
    *("xinfo_groups", "xinfo_consumers", "xinfo_stream"),
}
_CLIENT = re.compile(r"(.*\b_?client|pipeline)")


def find_room(place: Path) -> Room:
    """Return the row that names this file, or the innermost folder of it that has a row."""
    names = [str(place), *(f"{folder}/" for folder in place.parents)]
    return next(ROOMS[name] for name in names if name in ROOMS)


def is_allowed(room: Room, imported: str) -> bool:
    own = room.path.removesuffix(".py").rstrip("/").replace("/", ".")
    if imported.partition(".")[0] in TOP:
        return _starts_with(imported, room.may_import | {own})
    return not _starts_with(imported, room.without)


def _starts_with(module: str, names: frozenset[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


@cache
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(_find_imports(parse(path), path.read_text()))


def _find_imports(tree: ast.Module, text: str) -> Iterator[str]:
    for node in ast.walk(tree) if "import_module" in text else walk_statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # Of ours every name may be a module; of others the module says enough.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def _at_start(path: Path) -> Iterator[str]:
    """Yield what a module imports when it is imported: at its top level, and not for types alone."""
    for node in parse(path).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def loaded_with(module: str) -> set[str]:
    """Return the modules, ours and others, that are imported where this one is, by our imports."""
    found, open_ = {module}, [module]
    while open_:
        for each in _at_start(find_modules()[open_.pop()]):
            if each not in found:
                found.add(each)
                if each in find_modules():
                    open_.append(each)
    return found


def test_the_table_names_every_package_and_nothing_that_is_not_there():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - TOP == {"bench", "tests"}
    assert [path for path in ROOMS if not (ROOT / path).exists()] == []


@pytest.mark.slow
def test_imports_point_one_way():
    bad = [
        f"{name} imports {imported}, which the row {room.path} does not allow"
        for name, path in find_modules().items()
        for room in [find_room(path.relative_to(ROOT))]
        for imported in _imports(path)
        if not is_allowed(room, imported)
    ]
    assert bad == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "without"),
    [
        # Each takes up to some tenths of a second of every start.
        (
            "manage.cli.main",
            {"authlib", "genai_prices", "httpx", "pydantic", "sqlite_utils", "starlette"},
        ),
        ("manage.server", {"authlib", "genai_prices", "httpx", "datasette", "sqlite_utils"}),
        ("addon.__main__", {"genai_prices", "httpx", "pydantic", "sqlite_utils", "starlette"}),
        (
            "recorder.__main__",
            {"authlib", "genai_prices", "httpx", "pydantic", "sqlite_utils", "starlette"},
        ),
        ("dashboard.queries.__main__", {"authlib", "genai_prices", "sqlite_utils"}),
    ],
)
def test_a_process_starts_without_what_it_needs_for_few_tasks_only(module, without):
    modules = loaded_with(module).union(*map(loaded_with, PLUGINS))
    names = {name.partition(".")[0] for name in modules}
    assert names & without == set()
    assert "runtime" in names


@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_process_loads_of_an_extension_its_hooks_and_settings_alone(plugin):
    folder = plugin.removesuffix(".plugin")
    loaded = {name for name in loaded_with(plugin) & set(find_modules()) if name.startswith(folder)}
    assert loaded <= {folder, plugin, f"{folder}.settings"}


@pytest.mark.parametrize(
    ("word", "files"),
    [
        # As the name of its extra; the second file has the header x-cluster-client-ip of other programs.
        ("cluster", {"pyproject.toml", "runtime/local_requests.py"}),
        ("opentelemetry", {"pyproject.toml"}),
    ],
)
def test_what_is_optional_is_named_in_its_folder(word, files):
    in_rooms = (path for room in TOP - {"extensions"} for path in (ROOT / room).rglob("*"))
    found = {
        str(path.relative_to(ROOT))
        for path in (*ROOT.glob("*"), *in_rooms)
        if path.suffix in {".py", ".html", ".css", ".js", ".sql", ".toml"}
        and word in path.read_text().lower()
    }
    assert found == files


def test_the_web_process_has_nothing_whose_time_is_not_in_proportion_to_a_recorded_text():
    """A client records the text, nothing in a process stops the work, and everybody waits for that process.
    Query processes, which make the pages of recorded text, are killed."""
    slow = {"difflib", "markdown_it", "nh3", "pygments"}
    importing = {
        name
        for name in loaded_with("manage.server") & set(find_modules())
        if any(each.partition(".")[0] in slow for each in _imports(find_modules()[name]))
    }
    # It compares names of a hundred characters at most, and no recorded text.
    assert importing == {"runtime.suggestions"}


def test_there_are_no_import_cycles():
    modules = find_modules() | find_modules("bench")
    graph = {
        name: {found for each in _imports(path) for found in (each, each.rpartition(".")[0])}
        & set(modules) - {name, name.rpartition(".")[0]}
        for name, path in modules.items()
    }
    assert list(TopologicalSorter(graph).static_order())


def test_database_files_are_opened_in_one_place():
    opening = [
        name
        for name, path in find_modules().items()
        if re.search(r"sqlite3\.connect\((?!\":memory:\")", path.read_text())
    ]
    assert opening == ["store.database"]


@pytest.mark.parametrize(
    ("library", "module"),
    [
        ("datasette", "dashboard.tables.lean_datasette"),
        ("sqlite_utils", "store.lean_sqlite_utils"),
    ],
)
def test_a_library_that_is_imported_without_its_ballast_is_imported_in_one_place(library, module):
    importing = {
        name
        for name, path in find_modules().items()
        if any(each.partition(".")[0] == library for each in _imports(path))
    }
    assert importing == {module}


def _find_reads(path: Path) -> Iterator[str]:
    """Yield the commands of a file that give out what others wrote on the server of a cluster."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, words = node.func.attr, {each.arg: each.value for each in node.keywords}
            gives_ids_alone = isinstance(found := words.get("justid"), ast.Constant) and found.value
            is_client = _CLIENT.fullmatch(ast.unparse(node.func.value))
            if name in READING and is_client and not gives_ids_alone:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"


def test_what_is_on_the_server_of_a_cluster_is_read_where_it_is_checked():
    folder = ROOT / "extensions" / "cluster"
    files = [path for path in sorted(folder.rglob("*.py")) if "tests" not in path.parts]
    assert list(_find_reads(folder / "reading.py"))
    reads = [each for path in files if path.name != "reading.py" for each in _find_reads(path)]
    assert reads == [], "ask extensions/cluster/reading.py, which wants to know how it is parsed"


FIELDS_OF_REQUESTS = {
    *("messages", "tools", "system", "mcp_servers", "cache_control", "thread"),
    *("tool_use_id", "is_error", "content_block", "previous_message_id"),
    *("tool_choice", "output_format", "output_config"),
}
# Names that nothing of ours has: who writes one wants to look for it, in whatever way.
NAMES_OF_UPSTREAM = {
    *("mcp_servers", "cache_control", "tool_use_id", "is_error", "content_block"),
    *("previous_message_id", "input_transformations", "partial_json"),
    *("message_start", "message_delta", "content_block_delta", "server_tool_use", "mcp_tool_use"),
    *("disable_parallel_tool_use", "stop_details", "cache_creation", "cache_miss_reason"),
    *("finish_reason", "tool_calls", "completion_tokens", "custom_id", "processed_at", "list_cost"),
    *("return_code", "applied_edits", "clear_at", "defer_loading"),
}
KINDS_OF_BLOCKS = {"tool_use", "tool_result", "_tool_use", "_tool_result", "content_block_start"}
# Those that write requests, or are a client and an upstream of their own.
WRITERS = ("extensions/demo/", "dashboard/replay/snippets.py")
READS_BY_NAME: dict[str, str] = {
    "metering/request_facts.py": "has what wire/request_fields.py found, under the names of the fields",
}


def find_reads_of_requests(tree: ast.AST) -> Iterator[str]:
    """Yield what code asks of a parsed request or response by the names of upstream's format: a field by
    ``get``, an index or ``in``, a kind of block by the end of its name, and whatever has a name that is
    upstream's alone or that of its marker."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(name)) if name in NAMES_OF_UPSTREAM:
                yield f"{node.lineno}: {name}"
            case ast.alias(name="MARKER"):
                yield "an import of MARKER"
            case ast.Call(
                func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(value=str(name)), *_]
            ) if name in FIELDS_OF_REQUESTS - NAMES_OF_UPSTREAM:
                yield f"{node.lineno}: {name}"
            case ast.Call(
                func=ast.Attribute(attr="endswith"), args=[ast.Constant(value=str(name))]
            ) if name in KINDS_OF_BLOCKS:
                yield f"{node.lineno}: {name}"
            case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load()) if (
                name in FIELDS_OF_REQUESTS - NAMES_OF_UPSTREAM
            ):
                yield f"{node.lineno}: {name}"
            case ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn()]) if (
                name in FIELDS_OF_REQUESTS - NAMES_OF_UPSTREAM
            ):
                yield f"{node.lineno}: {name}"


@pytest.mark.parametrize(
    "code",
    [
        'request.get("messages")',
        'request["tools"]',
        '"system" in request',
        'block.get("type", "").endswith("tool_result")',
        'block.get("cache_control")',
        'block.read("tool_use_id")',
        '_FRONT = ("tools", "mcp_servers")',
        "from wire.block import MARKER, Block",
        'event == "message_delta"',
    ],
)
def test_a_read_of_the_format_is_found(code):
    assert len(list(find_reads_of_requests(ast.parse(code)))) == 1
    assert (
        list(find_reads_of_requests(ast.parse('request["messages"] = []; request.messages'))) == []
    )


@pytest.mark.slow
def test_the_format_of_requests_and_responses_is_read_in_wire_alone():
    found: dict[str, list[str]] = {}
    for path in find_modules().values():
        name = str(path.relative_to(ROOT))
        if not name.startswith(("wire/", *WRITERS)) and (
            reads := list(find_reads_of_requests(parse(path)))
        ):
            found[name] = reads
    new = {name: reads for name, reads in found.items() if name not in READS_BY_NAME}
    assert new == {}, "ask wire.request.Request and wire.block.Block"
    assert set(READS_BY_NAME) == set(found), "no exception is left over"
