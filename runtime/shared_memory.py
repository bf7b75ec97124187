"""Shared memory of processes: a file without a name, whose descriptor children inherit.

On Linux it is in memory only, so a full disk does not affect it. Elsewhere it is a temporary file.
Parts never written use no space in either case."""

import os
import tempfile


def create(size_bytes: int) -> int:
    """Return the descriptor of new shared memory, filled with zeros. Raises OSError."""
    fd = _open()
    try:
        os.ftruncate(fd, size_bytes)
    except OSError:
        os.close(fd)
        raise
    return fd


def _open() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("taximeter", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
