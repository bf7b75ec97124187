"""Isolation of a query process from the machine.

Limits of the kernel bound memory and file sizes. An audit hook refuses to Python code what it does not
need: other files, programs, processes, and the network. SQLite opens its files itself, past the hook;
there the read-only mode and the authorizer protect (see tables/query_limits).
"""

import os
import resource
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runtime import address_space

MAX_MEMORY_BYTES = 640 << 20  # address space, of which an idle process has 80
# Of it SQLite may have this much. It then says so, which is better than a process that ends.
MAX_HEAP_BYTES = 256 << 20
# Sorting and recursion stay in memory. Only the index of a write-ahead log (-shm) is ever made larger,
# by 32 KB for every 4,096 pages of the log.
MAX_FILE_BYTES = 16 << 20
NICENESS = 2
_REFUSED = {
    "ctypes.dlopen",
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.kill",
    "os.killpg",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.spawn",
    "os.symlink",
    "os.system",
    "os.truncate",
    "pty.spawn",
    "socket.bind",
    "socket.connect",
    "socket.sendto",
    "subprocess.Popen",
}
_DASHBOARD = Path(__file__).resolve().parents[1]
# Not all of the folder that they are in: the data directory, ``.env`` and ``.git`` may be there too.
_CODE = (
    _DASHBOARD,
    *(
        _DASHBOARD.parent / room
        for room in ("conversations", "metering", "runtime", "store", "wire")
    ),
    Path(sys.prefix),
    Path(sys.base_prefix),
    Path("/usr/share/zoneinfo"),
)
_FILES = {
    # In a checkout this is a link to the file at the top, in a wheel the file itself.
    os.path.realpath(_DASHBOARD / "tables" / "datasette-metadata.json"),
    os.devnull,
    "/etc/localtime",
    "/etc/mime.types",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def limit_resources() -> None:
    """Limit memory and file sizes of this process, and lower its priority below that of other processes."""
    os.nice(NICENESS)
    for kind, limit in {resource.RLIMIT_FSIZE: MAX_FILE_BYTES, resource.RLIMIT_CORE: 0}.items():
        _, hard = resource.getrlimit(kind)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, allowed))
    address_space.limit(MAX_MEMORY_BYTES, for_good=True)
    with closing(sqlite3.connect(":memory:")) as any_connection:  # the limit is the whole process's
        any_connection.execute(f"pragma hard_heap_limit = {MAX_HEAP_BYTES}")


def refuse_other_files(traces: Path) -> None:
    """Allow Python code to open only traces and code from now on, and only to read. It cannot be undone."""
    sys.addaudithook(make_audit_hook(traces))


def make_audit_hook(traces: Path) -> Callable[[str, tuple[object, ...]], None]:
    """Return an audit hook that raises PermissionError for what a query process may not do.

    Folders of traces, data and code may be nested: the innermost one that has a file decides."""
    trace_root = _as_root(traces)
    data_root = os.path.join(os.path.dirname(trace_root[:-1]), "")  # noqa: PTH118, PTH120
    may_open = dict.fromkeys(map(_as_root, _CODE), True) | {data_root: False, trace_root: True}

    def is_readable(name: str) -> bool:
        inside = [root for root in may_open if name.startswith(root)]
        return name in _FILES or (bool(inside) and may_open[max(inside, key=len)])

    def check(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = (*arguments, None, None, None)[:3]
            if isinstance(path, int):  # a descriptor that is open already
                return
            name = os.path.realpath(os.fsdecode(path))  # type: ignore[arg-type]
            is_writing = isinstance(flags, int) and flags & _WRITING
            if is_writing or not is_readable(name):
                raise PermissionError(f"a query process may not open {name}")
        elif event == "sqlite3.connect":
            if not os.path.realpath(_path_of(arguments[0])).startswith(trace_root):
                raise PermissionError("a query process may open no database but traces")
        elif event in _REFUSED:
            raise PermissionError(f"a query process may not use {event}")

    return check


def _as_root(path: Path) -> str:
    """Return the resolved path of a folder, ending with a separator."""
    return os.path.join(os.path.realpath(path), "")  # noqa: PTH118 - Path drops the separator


def _path_of(database: object) -> str:
    text = os.fsdecode(database)  # type: ignore[arg-type]
    return unquote(urlsplit(text).path) if text.startswith("file:") else text
