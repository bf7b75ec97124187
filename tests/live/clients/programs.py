"""Clients that are programs of their own. `tests/live/node/install.sh` installs them."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

from tests.upstream import wait_until

NODE_DIR = Path(__file__).parents[1] / "node"
MODULES = NODE_DIR / "node_modules"
CLAUDE = MODULES / ".bin" / "claude"


def _node_uses_proxies() -> bool:
    """Return whether node knows NODE_USE_ENV_PROXY."""
    if shutil.which("node") is None:
        return False
    printed = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False)  # noqa: S607
    found = re.match(r"v(\d+)\.(\d+)", printed.stdout)
    if found is None:
        return False
    major, minor = map(int, found.groups())
    return major >= 24 or (major == 22 and minor >= 21)


needs_typescript_sdk = pytest.mark.skipif(
    shutil.which("node") is None or not (MODULES / "@anthropic-ai" / "sdk").exists(),
    reason="there is no node, or no TypeScript SDK; tests/live/node/install.sh installs it with npm",
)
needs_claude_code = pytest.mark.skipif(
    not CLAUDE.exists(),
    reason="there is no Claude Code; tests/live/node/install.sh installs it with npm",
)

needs_proxies_in_node = pytest.mark.skipif(
    not _node_uses_proxies() or not (MODULES / "@anthropic-ai" / "sdk").exists(),
    reason="there is no node that uses HTTPS_PROXY (24, or 22.21 and later of 22), or no TypeScript SDK;"
    " install one, and run tests/live/node/install.sh",
)

NODE_S = 120.0
"""The seconds that a program may take before its test fails."""


class Program:
    """A client that is a program of its own; it is ended with the block, whatever happened."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        has_input: bool = False,
    ) -> None:
        self._lines = 0
        self._output, self._errors = folder / "stdout.txt", folder / "stderr.txt"
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - the commands are ours
                command,
                cwd=folder,
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "HOME": str(folder),
                    **environment,
                },
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def wait_line(self) -> str:
        """Wait for the next line of its standard output, and return it."""
        self._lines += 1
        wait_until(
            lambda: self._output.read_bytes().count(b"\n") >= self._lines or self._has_ended(),
            f"line {self._lines} of its output",
            patience_s=NODE_S,
        )
        lines = self._output.read_bytes().split(b"\n")
        assert len(lines) > self._lines, f"it has ended: {self._errors.read_text()}"
        return lines[self._lines - 1].decode()

    def _has_ended(self) -> bool:
        return self._process.poll() is not None

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def wait_printed(self, text: str) -> None:
        """Wait until its standard output has this in it."""
        shown = text.encode()  # what is being written may end within a character
        wait_until(lambda: shown in self._output.read_bytes(), text, patience_s=NODE_S)

    def finish(self) -> tuple[int, str, str]:
        """Close its standard input and wait: exit code, standard output, standard error."""
        self._process.communicate(timeout=NODE_S)
        return self._process.returncode, self._output.read_text(), self._errors.read_text()
