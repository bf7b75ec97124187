"""The commit that is measured."""

import subprocess

from bench.load import REPOSITORY


def find_commit() -> str:
    """Return the id of the measured commit, with a plus if files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    result = subprocess.run(  # noqa: S603 - git
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return result.stdout.strip() or "unknown"
