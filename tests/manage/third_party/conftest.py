"""Extensions as files of a folder."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

HEAD = """
import pluggy
hookimpl = pluggy.HookimplMarker("taximeter")
"""

type Write = Callable[[str, str], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "extensions"
    path.mkdir()
    return path


@pytest.fixture
def write(folder: Path) -> Write:
    """Write an extension with this name and text."""

    def write(name: str, text: str) -> Path:
        path = folder / f"{name}.py"
        path.write_text(HEAD + dedent(text))
        return path

    return write
