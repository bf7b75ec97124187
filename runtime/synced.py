"""Bringing files and names to the disk, where a loss of power cannot take them away."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Bring what a file has, or the names in a folder, to the disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
