"""Renewing the documents that are made from figures."""

import os
import subprocess
from pathlib import Path

from bench.load import BIN, REPOSITORY


def renew(*pages: Path) -> None:
    """Let cog make anew what these pages have of figures. Raises CalledProcessError."""
    subprocess.run(  # noqa: S603 - cog of the development tools
        [BIN / "cog", "-r", *pages],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": "."},
        check=True,
    )
