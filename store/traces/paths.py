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
    """Return where an organisation's traces are. Raises ValueError for an id that is not a plain name."""
    return trace_path_in(traces_folder(data_dir), organization_id)


def traces_folder(data_dir: Path) -> Path:
    return data_dir / "traces"


def trace_path_in(folder: Path, organization_id: str) -> Path:
    """Return where an organisation's traces are below a folder of traces. Raises ValueError."""
    if not _ORGANIZATION_ID.fullmatch(organization_id):
        raise ValueError(f"not an organisation id: {organization_id!r}")
    return folder / organization_id / "traces.db"


def identify_file(path: Path) -> FileId | None:
    """Return what identifies a file, or None when there is none. One that was replaced is another, even
    under the same name."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def find_stamp(path: Path) -> Stamp:
    """Return what changes when a database does: each commit writes to its write-ahead log."""
    found = []
    for file in (path, f"{path}-wal"):
        with suppress(OSError):
            status = os.stat(file)  # noqa: PTH116 - of two names, one of which is no Path
            found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


def find_trace_files(data_dir: Path) -> list[Path]:
    """Return the trace databases of all organisations that have recorded anything."""
    return sorted(data_dir.glob("traces/*/traces.db"))
