"""Fingerprints of databases: whether one was written since an earlier backup, without reading it.

SQLite has no counter for this: in WAL mode the one in the file's header does not change. But a
commit writes to the log, whose content never repeats, because its header and frames have random
salts and a running checksum. A checkpoint writes to the file and so sets its change time, which no
program can set back. The file system's clock advances in steps of some milliseconds. So there is no
fingerprint right after a write, since another write may follow in the same step."""

import hashlib
from pathlib import Path

SETTLED_NS = 2_000_000_000


def take_fingerprint(database: Path, now_ns: int) -> str | None:
    """Return a text that differs after any change of the database, or None right after a write.

    None means that the file was written so recently that the text might not change with the next write.
    Call this before reading the database, so that a write in between counts as a later change. Raises
    OSError."""
    status = database.stat()
    if now_ns - max(status.st_mtime_ns, status.st_ctime_ns) < SETTLED_NS:
        return None
    numbers = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return " ".join((*map(str, numbers), _hash_log(database.with_name(f"{database.name}-wal"))))


def _hash_log(path: Path) -> str:
    """Return the SHA-256 of a write-ahead log (a few megabytes); a missing log counts as an empty one."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return hashlib.sha256().hexdigest()
