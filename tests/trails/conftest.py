from pathlib import Path

import pytest

from tests.trails.copies import Copy


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path / "copy")
