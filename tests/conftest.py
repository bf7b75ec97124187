"""What holds for every test: where its files are, and how examples are made."""

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder in it that is the user's own
ROOM_BYTES = 2 * 1024**3

# How long an example takes says more about the machine than about the code.
settings.register_profile("suite", deadline=None, database=None, print_blob=True)
settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory where there is room: SQLite waits for the disk at each commit."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_finish() -> None:
    """Keep the collector of garbage away from what lasts until the end: thousands of tests."""
    gc.collect()
    gc.freeze()
