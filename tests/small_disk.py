"""A small file system, and a way to leave not one byte on it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILLING = b"x" * 65_536


class CannotMountError(Exception):
    """No file system can be mounted here. The message says why."""


@contextmanager
def mounted(place: Path, megabytes: int) -> Iterator[Path]:
    """Mount a small file system on a folder, which only root may. Raises CannotMountError."""
    options = f"size={megabytes}m,mode=0700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        raise CannotMountError("there is no program mount") from None
    if done.returncode:
        raise CannotMountError(f"no small file system can be mounted: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)  # noqa: S603, S607


def fill(path: Path) -> None:
    """Leave not one byte on the file system of a file, which takes them all."""
    with path.open("ab", buffering=0) as file:
        size = len(FILLING)
        while size:
            try:
                file.write(FILLING[:size])
            except OSError:
                size //= 2
