"""Files that only their owner may read, replaced atomically and flushed to the disk."""

import os
from pathlib import Path


def replace_private(path: Path, content: bytes) -> None:
    """Replace a file atomically, readable by its owner alone. Raises OSError."""
    fresh = path.with_suffix(".new")
    # One that a killed process left keeps the mode it has, so it must go.
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    fresh.replace(path)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
