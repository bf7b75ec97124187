"""A spool with the run of one proxy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.spool.writer import SpoolRun


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def run(root: Path) -> Iterator[SpoolRun]:
    run = SpoolRun(root)
    yield run
    run.close()
