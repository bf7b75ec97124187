"""Small files that are rewritten as a whole, and that only their owner may read."""

import os
from pathlib import Path


def replace_private(path: Path, content: bytes) -> None:
    """Replace the file, in one step for those who read it. Raises OSError."""
    fresh = path.with_suffix(".new")
    # One that a killed process left keeps the mode it has, so it must go.
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    fresh.replace(path)
