from collections.abc import Iterator
from pathlib import Path

import pytest

from store.traces import TraceDatabase, trace_path


@pytest.fixture
def traces_path(tmp_path: Path) -> Path:
    return trace_path(tmp_path / "data", "org_1")


@pytest.fixture
def traces(traces_path: Path) -> Iterator[TraceDatabase]:
    with TraceDatabase(traces_path) as database:
        yield database
