"""The git checkout that a command is run in: its project, named by the URL of ``origin``, and its
branch."""

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from metering.attribution import MAX_NAME_CHARS, make_valid

GIT_S = 5.0
# git@host:path: what stands before the colon is no path, and after it no port.
_SCP = re.compile(r"[^/:]+:(?!//)(.*)", re.DOTALL)
_BETWEEN = "_git"  # of Azure DevOps, before the name of the repository


def find_project(folder: Path) -> str | None:
    """Return the project of the repository checked out in ``folder``, as ``owner/name``, or None."""
    origin = _ask_git(folder, "remote", "get-url", "origin")
    return None if origin is None else name_project(origin)


def find_branch(folder: Path) -> str | None:
    """Return the branch that is checked out, None without a repository or on a detached head."""
    return _ask_git(folder, "symbolic-ref", "--short", "--quiet", "HEAD")


def name_project(origin: str) -> str | None:
    """Return ``owner/name``, the last two parts of the path of a repository's URL, None without a path.

    User, password and host are left out. For a path on this machine it is the last part alone, since
    the others are personal folders."""
    parts = [each for each in _find_path(origin).split("/") if each not in ("", ".", _BETWEEN)]
    if not parts:
        return None
    is_here = _is_on_this_machine(origin)
    *owners, last = parts
    last = last.removesuffix(".git") or last
    names = [last] if is_here else [*owners[-1:], last]
    return make_valid("/".join(names))[-MAX_NAME_CHARS:]


def _find_path(origin: str) -> str:
    if "://" in origin:
        try:
            return unquote(urlsplit(origin).path)
        except ValueError:  # a host in brackets that is none
            return ""
    short = _SCP.fullmatch(origin)
    return origin if short is None else short[1]


def _is_on_this_machine(origin: str) -> bool:
    return origin.startswith("file://") or ("://" not in origin and not _SCP.fullmatch(origin))


def _ask_git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints, stripped, or None if it fails, prints nothing or is not installed."""
    try:
        done = subprocess.run(  # noqa: S603 - our own arguments
            ("git", *arguments),  # noqa: S607 - the one that people use
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    line = done.stdout.decode(errors="replace").strip()
    return line if done.returncode == 0 and line else None
