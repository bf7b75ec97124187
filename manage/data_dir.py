"""Preparation of the data directory at the start of the service.

It must be accessible to its owner only: it contains the text of calls, and whoever can write to it can
replace our files. The mode of a directory that others can access is repaired, but only if the
directory is ours: if somebody names a home directory or /tmp by mistake, its mode must not change."""

import stat
from os import geteuid
from pathlib import Path

from runtime.data_location import is_ours
from runtime.errors import StartError

_OWN_FOLDER = "use a separate directory (--data-dir or TAXIMETER_DATA_DIR)"


def prepare_data_dir(folder: Path) -> str | None:
    """Create the data directory, or repair its mode. Return a warning if the mode was repaired, else None.

    Raises StartError for a directory that cannot be used safely, and OSError."""
    if not folder.is_symlink():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    elif folder.lstat().st_uid not in (geteuid(), 0):
        raise StartError(f"the symbolic link {folder} belongs to another user: {_OWN_FOLDER}")
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise StartError(f"{folder} is not a directory: {_OWN_FOLDER}")
    if status.st_uid != geteuid():
        raise StartError(
            f"{folder} belongs to another user (id {status.st_uid}), who can change its contents:"
            f" run as that user, change the owner with chown, or {_OWN_FOLDER}"
        )
    if not _is_open(status.st_mode):
        return None
    return _close(folder, stat.S_IMODE(status.st_mode))


def _close(folder: Path, mode: int) -> str:
    """Set the mode of the directory to 700 and return a warning. Raises StartError, OSError."""
    if mode & stat.S_ISVTX or not is_ours(folder):
        raise StartError(
            f"{folder} is accessible to other users (mode {mode:o}) and is not a data directory of"
            f" Taximeter: {_OWN_FOLDER}"
        )
    folder.chmod(0o700)
    if _is_open(folder.stat().st_mode):
        raise StartError(
            f"{folder} is accessible to other users (mode {mode:o}), and its file system does not"
            " support changing it: use a directory on another one (--data-dir or TAXIMETER_DATA_DIR)"
        )
    return f"{folder} was accessible to other users (mode {mode:o}); its mode is now 700"


def _is_open(mode: int) -> bool:
    return bool(mode & 0o077)
