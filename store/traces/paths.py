"""The paths of trace databases: one folder for each organisation."""

import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

type FileId = tuple[int, int]
type Stamp = tuple[tuple[int, int], ...]

_ORGANIZATION_ID = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@lru_cache(maxsize=1024)
def trace_path(data_dir: Path, organization_id: str) -> Path:
    """Return the path of an organisation's trace database. Raises ValueError if the id is not a plain
    name."""
    return trace_path_in(traces_folder(data_dir), organization_id)


def traces_folder(data_dir: Path) -> Path:
    return data_dir / "traces"


def trace_path_in(folder: Path, organization_id: str) -> Path:
    """Return the path of an organisation's trace database in a folder of traces. Raises ValueError."""
    if not _ORGANIZATION_ID.fullmatch(organization_id):
        raise ValueError(f"not an organisation id: {organization_id!r}")
    return folder / organization_id / "traces.db"


def identify_file(path: Path) -> FileId | None:
    """Return (device, inode) of a file, or None if there is none. A replaced file has another inode."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def find_stamp(path: Path) -> Stamp:
    """Return modification times and sizes of a database and its log. Each commit changes them, unless it
    follows another within the same tick of the file system's clock."""
    found = []
    for file in (path, f"{path}-wal"):
        with suppress(OSError):
            status = os.stat(file)  # noqa: PTH116 - of two names, one of which is no Path
            found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


def find_trace_files(data_dir: Path) -> list[Path]:
    """Return the paths of all trace databases of a data directory."""
    return sorted(data_dir.glob("traces/*/traces.db"))
