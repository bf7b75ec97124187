"""Renewing the documents that are made from figures."""

import os
import subprocess
from pathlib import Path

from bench.load import BIN, REPOSITORY


def renew(*pages: Path) -> None:
    """Renew the generated parts of these pages with cog. Raises CalledProcessError."""
    subprocess.run(  # noqa: S603 - cog of the development tools
        [BIN / "cog", "-r", *pages],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": "."},
        check=True,
    )
