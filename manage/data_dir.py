"""The data directory at a start: it must be its owner's alone, because what is in it is what people
wrote, and because who can write into it can put files in the place of ours.

One that is open to others is closed, if it is a folder of ours and nobody else's: who names a home
directory or /tmp by mistake must not find it closed to all other programs.
"""

import stat
from os import geteuid
from pathlib import Path

from manage.supervisor import StartError

_OWN_FOLDER = "name a folder of its own with --data-dir or TAXIMETER_DATA_DIR"


def prepare_data_dir(folder: Path) -> str | None:
    """Make the folder, or close it to others. Returns a warning when it had to be closed.

    Raises StartError for one that cannot be used safely, and OSError."""
    if not folder.is_symlink():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    elif folder.lstat().st_uid not in (geteuid(), 0):
        raise StartError(f"the link {folder} belongs to another user: {_OWN_FOLDER}")
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise StartError(f"{folder} is no folder: {_OWN_FOLDER}")
    if status.st_uid != geteuid():
        raise StartError(
            f"{folder} belongs to another user (id {status.st_uid}), who can change what is in it:"
            f" run as that user, give it to this one with chown, or {_OWN_FOLDER}"
        )
    if not _is_open(status.st_mode):
        return None
    return _close(folder, stat.S_IMODE(status.st_mode))


def _close(folder: Path, mode: int) -> str:
    if mode & stat.S_ISVTX or not _is_ours(folder):
        raise StartError(
            f"others can use {folder} (mode {mode:o}), and it holds what is not Taximeter's:"
            f" {_OWN_FOLDER}"
        )
    folder.chmod(0o700)
    if _is_open(folder.stat().st_mode):
        raise StartError(
            f"others can use {folder} (mode {mode:o}), and its file system does not let that be"
            " changed: put the data on another one with --data-dir or TAXIMETER_DATA_DIR"
        )
    return f"others could use {folder} (mode {mode:o}); now it is yours alone (mode 700)"


def _is_open(mode: int) -> bool:
    return bool(mode & 0o077)


def _is_ours(folder: Path) -> bool:
    """Is it one of Taximeter's, or empty?"""
    return (folder / "control.db").exists() or not any(folder.iterdir())
