"""Telling whether a database was written since an earlier backup, without reading it.

SQLite has no counter for that: in WAL mode the one in the file's head stands still. But a commit writes to
the log, whose content is never the same again, for its head and frames have random salts and a running
checksum. And a checkpoint writes to the file, which sets its change time, and nobody can set that back. The
file system's clock advances in steps of some milliseconds. So right after a write there is no fingerprint,
since another write may follow in the same step.
"""

import hashlib
from pathlib import Path

SETTLED_NS = 2_000_000_000


def take_fingerprint(database: Path, now_ns: int) -> str | None:
    """Return a text that is another one after any change of a database, or None.

    It is None where the file was written so recently that the text might stay the same. Take it before
    the database is read: what is written in between then counts as a later change. Raises OSError."""
    status = database.stat()
    if now_ns - max(status.st_mtime_ns, status.st_ctime_ns) < SETTLED_NS:
        return None
    numbers = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return " ".join((*map(str, numbers), _hash_log(database.with_name(f"{database.name}-wal"))))


def _hash_log(path: Path) -> str:
    """Return the SHA-256 of a log: a few megabytes, and none for one that a reader has made."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return hashlib.sha256().hexdigest()
